"""Services with chat completions that are known by a prefix: base URL, key variable, quirks and prices of each.

No preset was tried against the live service. The comments name where the values come from or should be checked.
"""

import os
from collections.abc import Mapping
from typing import Final

import msgspec

from timeloom.core.codes import CodedError
from timeloom.platform.secrets import resolve_key
from timeloom.ports.model import ModelError
from timeloom.providers.openai.quirks import OPENAI_QUIRKS, ChatQuirks, ChatService
from timeloom.providers.settings import ModelSettings

AZURE_VERSION_VARIABLE: Final = "OPENAI_API_VERSION"
AZURE_VERSION: Final = "2025-01-01-preview"
"""A version with `stream_options` and `max_completion_tokens`; older ones report no usage in a stream."""


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """How the models of one service are opened."""

    service: ChatService
    base_url: str = ""
    """Empty if each customer has an own one."""
    key_variable: str
    base_url_variable: str
    needs_key: bool = True


def _preset(
    prefix: str,
    title: str,
    base_url: str,
    *,
    price_provider: str = "",
    window_tokens: int = 128_000,
    quirks: ChatQuirks | None = None,
    needs_key: bool = True,
) -> Preset:
    variable = prefix.upper()
    service = ChatService(
        prefix=prefix,
        title=title,
        quirks=quirks or ChatQuirks(),
        price_provider=price_provider,
        window_tokens=window_tokens,
        # A hosted service has no use for them; a local one may be timeloom's own test endpoint.
        call_headers=not needs_key,
    )
    return Preset(
        service=service,
        base_url=base_url,
        key_variable=f"{variable}_API_KEY",
        base_url_variable=f"{variable}_BASE_URL",
        needs_key=needs_key,
    )


_AZURE: Final = Preset(
    service=ChatService(
        prefix="azure",
        title="Azure OpenAI",
        quirks=OPENAI_QUIRKS,
        price_provider="azure",
        key_header="api-key",
        deployment_version=AZURE_VERSION,
        call_headers=False,
    ),
    key_variable="AZURE_OPENAI_API_KEY",
    base_url_variable="AZURE_OPENAI_ENDPOINT",
)

# No preset was tried against its service. "Unchecked" marks what no documentation or client library was read for; the
# default windows and Azure's default version are unchecked for all of them.
_ALL: Final = (
    # docs.ollama.com/api/openai-compatibility. Its context is short unless OLLAMA_CONTEXT_LENGTH makes it longer.
    _preset("ollama", "Ollama", "http://127.0.0.1:11434/v1", window_tokens=32_768, needs_key=False),
    # docs.vllm.ai, "OpenAI-compatible server".
    _preset("vllm", "vLLM", "http://127.0.0.1:8000/v1", window_tokens=32_768, needs_key=False),
    # lmstudio.ai/docs/developer/openai-compat.
    _preset("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1", window_tokens=32_768, needs_key=False),
    # openrouter.ai/docs/api-reference.
    _preset("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", price_provider="openrouter"),
    # ai.google.dev/gemini-api/docs/openai.
    _preset(
        "gemini",
        "Gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        price_provider="google",
        window_tokens=1_000_000,
    ),
    # github.com/openai/openai-python, src/openai/lib/azure.py.
    _AZURE,
    # github.com/groq/groq-python, pull request 175: `max_completion_tokens` and `parallel_tool_calls` are parameters.
    _preset(
        "groq",
        "Groq",
        "https://api.groq.com/openai/v1",
        price_provider="groq",
        quirks=ChatQuirks(max_tokens_field="max_completion_tokens", parallel_tool_calls=True),
    ),
    # github.com/openai/openai-agents-python/issues/442: `stream_options` is rejected with 422. api.koog.ai, the client
    # of JetBrains, has `parallelToolCalls`. Unchecked: the last chunk has the usage unasked.
    _preset(
        "mistral",
        "Mistral",
        "https://api.mistral.ai/v1",
        price_provider="mistral",
        quirks=ChatQuirks(stream_options=False, parallel_tool_calls=True),
    ),
    # share.apidog.com/apidoc/docs-site/747793, a copy of DeepSeek's documentation: the base URL, without `/v1`.
    _preset("deepseek", "DeepSeek", "https://api.deepseek.com", price_provider="deepseek"),
)

PRESETS: Final[Mapping[str, Preset]] = {preset.service.prefix: preset for preset in _ALL}


def resolve_preset(
    preset: Preset, settings: ModelSettings, environ: Mapping[str, str] | None = None
) -> tuple[ChatService, ModelSettings]:
    """Return the service and the settings with key and base URL: from the settings, the environment or the preset.

    A base URL of another address needs no key, and its prices are looked up by that address. Raises `ModelError` if the
    key is missing, and `CodedError` for an unusable base URL.
    """
    environ = os.environ if environ is None else environ
    service = preset.service
    key = settings.key or environ.get(preset.key_variable, "").strip() or None
    named_url = (settings.base_url or environ.get(preset.base_url_variable, "").strip()).rstrip("/")
    base_url = named_url or preset.base_url
    if preset.needs_key and key is None and (not named_url or not preset.base_url):
        other = f", or {preset.base_url_variable} for a service without keys" if preset.base_url else ""
        raise ModelError("unauthorized", f"no API key for {service.title}; set {preset.key_variable}{other}")
    if not base_url:
        raise CodedError(
            "model_unknown",
            f"{service.title} has a URL for each resource; set {preset.base_url_variable}, "
            "for example to https://my-resource.openai.azure.com",
        )
    if not base_url.startswith(("https://", "http://")):
        raise CodedError(
            "model_unknown",
            f"the base URL of {service.title} must begin with https:// or http://; set {preset.base_url_variable}",
        )
    if service.deployment_version:
        version = environ.get(AZURE_VERSION_VARIABLE, "").strip() or service.deployment_version
        service = msgspec.structs.replace(service, deployment_version=version)
    elif base_url != preset.base_url:
        service = msgspec.structs.replace(service, price_provider="", call_headers=True)
    return service, msgspec.structs.replace(settings, key=key and resolve_key(key, environ), base_url=base_url)
