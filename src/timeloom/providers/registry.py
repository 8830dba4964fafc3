"""Names of models: `anthropic:<id>`, `openai:<id>`, `local`, `script:<file.yaml>`, and the model behind each."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from timeloom.core.codes import CodedError
from timeloom.ports.model import Model, ModelError
from timeloom.providers.local.weights import INSTALL, is_installed
from timeloom.providers.settings import ModelSettings

FORMS = "`anthropic:<id>`, `openai:<id>`, `local`, `script:<file.yaml>`"

LOCAL = "local"
"""The model that needs no key."""

DEMO_NOTICE = (
    "This is a demo model that runs on this machine (SmolLM2, 135 million parameters). It shows how timeloom works "
    "and is often wrong. For real work name a model: --model anthropic:<id> with ANTHROPIC_API_KEY, or "
    "--model openai:<id> with OPENAI_API_KEY or OPENAI_BASE_URL."
)
"""What whoever uses the local model is told."""


class ModelNameError(CodedError):
    """The name is that of no model."""

    def __init__(self, message: str) -> None:
        super().__init__("model_unknown", message)


def open_model(
    name: str,
    settings: ModelSettings | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    taken: Collection[str] = (),
) -> Model:
    """The model of this name; key and base URL come from the settings, else from the provider's own variables.

    A script goes by the name of its file, and by more of its path where another model has that name: `taken` are those.
    """
    if name == LOCAL:
        return _local()
    provider, _, identity = name.partition(":")
    if not identity:
        raise ModelNameError(f"{name[:80]!r} names no model; the forms are {FORMS}")
    settings = settings or ModelSettings()
    environ = os.environ if environ is None else environ
    match provider:
        case "anthropic":
            return _anthropic(identity, _completed(settings, environ, "ANTHROPIC"))
        case "openai":
            return _openai(identity, _completed(settings, environ, "OPENAI"))
        case "script":
            return _script(identity, settings, taken)
        case _:
            raise ModelNameError(f"{provider[:80]!r} is no known provider; the forms are {FORMS}")


def default_model_name(environ: Mapping[str, str] | None = None) -> str:
    """The model to use where none was named: the one that `TIMELOOM_MODEL` says, else `local`.

    A key alone chooses no model, for it does not say which. Raises where `local` is not installed.
    """
    environ = os.environ if environ is None else environ
    if named := environ.get("TIMELOOM_MODEL", "").strip():
        return named
    if not is_installed():
        raise ModelNameError(f"no model is set: name one with --model ({FORMS}), or install the local one: {INSTALL}")
    return LOCAL


def notice(name: str) -> str:
    """What a user of this model should be told before its first answer; empty for most."""
    return DEMO_NOTICE if name == LOCAL else ""


def _completed(settings: ModelSettings, environ: Mapping[str, str], prefix: str) -> ModelSettings:
    key = settings.key or environ.get(f"{prefix}_API_KEY", "").strip() or None
    base_url = settings.base_url or environ.get(f"{prefix}_BASE_URL", "").strip() or None
    if key is None and base_url is None:
        raise ModelError(
            "unauthorized", f"there is no key; set {prefix}_API_KEY, or {prefix}_BASE_URL for a service without"
        )
    if base_url is not None and not base_url.startswith(("https://", "http://")):
        raise ModelNameError(f"the base URL of {prefix} must begin with https:// or http://")
    return msgspec.structs.replace(settings, key=key, base_url=base_url)


def _anthropic(identity: str, settings: ModelSettings) -> Model:
    from timeloom.providers.anthropic.model import AnthropicModel  # noqa: PLC0415 - the HTTP client takes 30 ms

    return AnthropicModel(identity, settings)


def _openai(identity: str, settings: ModelSettings) -> Model:
    from timeloom.providers.openai.model import OpenAIModel  # noqa: PLC0415 - the HTTP client takes 30 ms

    return OpenAIModel(identity, settings)


def _local() -> Model:
    from timeloom.providers.local.model import LocalModel  # noqa: PLC0415 - the YAML parser takes 20 ms

    return LocalModel()


def _script(identity: str, settings: ModelSettings, taken: Collection[str]) -> Model:
    from timeloom.providers.script import WINDOW_TOKENS, ScriptedModel  # noqa: PLC0415 - the YAML parser takes 20 ms

    name, window_tokens = _script_name(Path(identity), taken), settings.window_tokens or WINDOW_TOKENS
    return ScriptedModel.from_file(identity, name=name, window_tokens=window_tokens)


def _script_name(path: Path, taken: Collection[str]) -> str:
    """No more of the path than tells it apart: the name is shown to people, and they need not know this machine."""
    parts = path.absolute().parts
    names = [f"script:{'/'.join(parts[-count:])}" for count in range(1, len(parts))]
    return next((name for name in names if name not in taken), names[-1])
