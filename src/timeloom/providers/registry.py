"""Opens models by name: `anthropic:<id>`, `openai:<id>`, `bedrock:<id>`, `script:<file.yaml>`, a preset, or others.

Programs add providers with `register_provider`. Other packages add them through the entry-point group
`timeloom.providers`: each entry point names a `Provider` or a factory, and its own name is the prefix of the model
names that it opens. `local`, the demo model of `timeloom_local`, is one.
"""

import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final, cast

import msgspec

from timeloom.core.codes import CodedError
from timeloom.platform.entry_points import find_entry_point
from timeloom.platform.secrets import resolve_key
from timeloom.ports.model import Model, ModelError
from timeloom.providers.openai.quirks import ChatService
from timeloom.providers.presets import PRESETS, resolve_preset
from timeloom.providers.real_models import check_model_allowed
from timeloom.providers.settings import ModelSettings

MODEL_NAME_FORMS = (
    "`anthropic:<id>`, `openai:<id>`, "
    + ", ".join(f"`{prefix}:<id>`" for prefix in PRESETS)
    + ", `bedrock:<id>`, `local`, `script:<file.yaml>`"
)

LOCAL: Final = "local"
"""The model that needs no API key."""

BUILT_IN: Final = frozenset({"anthropic", "bedrock", "openai", "script", *PRESETS})

ENTRY_POINTS: Final = "timeloom.providers"
"""The entry-point group in which packages offer providers."""


Factory = Callable[[str, ModelSettings], Model]
"""Opens a model; takes the name after the colon (empty where there is none) and the model's settings."""

_PREFIX: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def _no_install_command() -> str:
    return ""


class Provider(msgspec.Struct, frozen=True):
    """Opens the models of one prefix; the object that an entry point of the group `timeloom.providers` names."""

    open: Factory
    """Takes the model name after the colon (empty where there is none) and the model's settings."""
    notice: str = ""
    """A sentence that users read before the first answer."""
    install: Callable[[], str] = _no_install_command
    """Returns the command that installs missing parts; empty when the provider is ready."""
    is_demo: bool = False
    """Whether its models only demonstrate timeloom. The page then says how to set a real one."""
    remote: bool = True
    """Whether its models call a service. A test run that forbids real models opens those of no remote provider."""
    examples: tuple[str, ...] = ()
    """Messages that its models handle well. The page offers them before the first message."""


class ModelNameError(CodedError):
    """The name does not name a model that can be opened."""

    def __init__(self, message: str) -> None:
        super().__init__("model_unknown", message)


_registered: Final[dict[str, Provider]] = {}


def register_provider(prefix: str, factory: Factory, *, remote: bool = True) -> None:
    """Make `open_model` open names with this prefix by calling `factory(name, settings)`, in this process.

    `remote` says whether the models call a service; tests open those of a remote provider only where they allow it.
    Raises `ModelNameError` if the prefix is malformed, built in, registered already or offered by an installed package.
    """
    if not _PREFIX.fullmatch(prefix):
        raise ModelNameError(
            f"{prefix[:80]!r} is not a provider prefix; expected a lower-case letter, then at most 63 lower-case "
            "letters, digits, - or _"
        )
    if not callable(factory):
        raise ModelNameError(f"the factory of {prefix!r} must be callable with (name, settings), not {factory!r:.80}")
    if prefix in BUILT_IN or prefix in _registered:
        owner = "is built in" if prefix in BUILT_IN else "is registered already"
        raise ModelNameError(f"the provider prefix {prefix!r} {owner}; choose another one")
    if found := find_entry_point(ENTRY_POINTS, prefix):
        raise ModelNameError(f"the installed package offers {prefix!r} as {found.value}; choose another prefix")
    _registered[prefix] = Provider(open=factory, remote=remote)


def open_model(
    name: str,
    settings: ModelSettings | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    used_names: Collection[str] = (),
) -> Model:
    """Open the model of this name.

    Key and base URL come from the settings, otherwise from the provider's environment variables. A script is named
    after its file, with more of its path if the name is in `taken`.
    """
    provider, _, identity = name.partition(":")
    if installed := find_installed_provider(provider):
        model = installed.open(identity, _with_key(settings or ModelSettings(), environ))
        if installed.remote:
            check_model_allowed(provider, model)
        return model
    if not identity:
        raise ModelNameError(f"{name[:80]!r} is not a model name; expected {MODEL_NAME_FORMS}")
    settings = settings or ModelSettings()
    environ = os.environ if environ is None else environ
    if preset := PRESETS.get(provider):
        return _preset_model(identity, *resolve_preset(preset, settings, environ))
    match provider:
        case "anthropic":
            return _anthropic(identity, _with_environment(settings, environ, "ANTHROPIC"))
        case "bedrock":
            return _bedrock(identity, settings, environ)
        case "openai":
            return _openai(identity, _with_environment(settings, environ, "OPENAI"))
        case "script":
            return _script(identity, settings, used_names)
        case _:
            raise ModelNameError(f"{provider[:80]!r} is not a known provider; expected {MODEL_NAME_FORMS}")


def default_model_name(environ: Mapping[str, str] | None = None) -> str:
    """Return the default model: `TIMELOOM_MODEL` if it is set, otherwise `local`.

    An API key alone does not choose a model. Raises `ModelNameError` if `local` is not installed.
    """
    environ = os.environ if environ is None else environ
    if named := environ.get("TIMELOOM_MODEL", "").strip():
        return named
    local = find_installed_provider(LOCAL)
    if local is None:
        raise ModelNameError(f"no model is set: name one with --model ({MODEL_NAME_FORMS})")
    if command := local.install():
        raise ModelNameError(
            f"no model is set: name one with --model ({MODEL_NAME_FORMS}), or install the local one: {command}"
        )
    return LOCAL


def model_notice(name: str) -> str:
    """Return the sentence that users of this model read before its first answer; empty for most models."""
    provider = find_installed_provider(name.partition(":")[0])
    return provider.notice if provider else ""


def find_installed_provider(prefix: str) -> Provider | None:
    """Return the provider that the program registered or an installed package offers; none for built-in prefixes."""
    if prefix in BUILT_IN:
        return None
    if registered := _registered.get(prefix):
        return registered
    try:
        found = find_entry_point(ENTRY_POINTS, prefix)
    except ValueError as error:
        raise ModelNameError(str(error)) from error
    if found is None:
        return None
    provider = found.load()
    if isinstance(provider, Provider):
        return provider
    if callable(provider):
        return Provider(open=cast("Factory", provider))
    raise ModelNameError(f"the entry point {found.value!r} of {ENTRY_POINTS} is no timeloom Provider and no factory")


def _with_environment(settings: ModelSettings, environ: Mapping[str, str], prefix: str) -> ModelSettings:
    key = settings.key or environ.get(f"{prefix}_API_KEY", "").strip() or None
    base_url = settings.base_url or environ.get(f"{prefix}_BASE_URL", "").strip() or None
    if key is None and base_url is None:
        raise ModelError(
            "unauthorized", f"no API key; set {prefix}_API_KEY, or {prefix}_BASE_URL for a service without keys"
        )
    if base_url is not None and not base_url.startswith(("https://", "http://")):
        raise ModelNameError(f"the base URL of {prefix} must begin with https:// or http://")
    return msgspec.structs.replace(settings, key=key and resolve_key(key, environ), base_url=base_url)


def _with_key(settings: ModelSettings, environ: Mapping[str, str] | None) -> ModelSettings:
    return msgspec.structs.replace(settings, key=resolve_key(settings.key, environ)) if settings.key else settings


def _anthropic(identity: str, settings: ModelSettings) -> Model:
    from timeloom.providers.anthropic.model import AnthropicModel  # noqa: PLC0415 - the HTTP client takes 30 ms

    return AnthropicModel(identity, settings)


def _bedrock(identity: str, settings: ModelSettings, environ: Mapping[str, str]) -> Model:
    from timeloom.providers.bedrock.model import BedrockModel  # noqa: PLC0415 - an extra

    return BedrockModel(identity, settings, environ=environ)


def _openai(identity: str, settings: ModelSettings) -> Model:
    from timeloom.providers.openai.model import OpenAIModel  # noqa: PLC0415 - the HTTP client takes 30 ms

    return OpenAIModel(identity, settings)


def _preset_model(identity: str, service: ChatService, settings: ModelSettings) -> Model:
    from timeloom.providers.openai.model import OpenAIModel  # noqa: PLC0415 - the HTTP client takes 30 ms

    return OpenAIModel(identity, settings, service=service)


def _script(identity: str, settings: ModelSettings, used_names: Collection[str]) -> Model:
    from timeloom.providers.script import WINDOW_TOKENS, ScriptedModel  # noqa: PLC0415 - the YAML parser takes 20 ms

    name, window_tokens = _script_name(Path(identity), used_names), settings.window_tokens or WINDOW_TOKENS
    return ScriptedModel.from_file(identity, name=name, window_tokens=window_tokens)


def _script_name(path: Path, used_names: Collection[str]) -> str:
    """Return the shortest unused end of the path: people see the name, and it should not expose folders."""
    parts = path.absolute().parts
    names = [f"script:{'/'.join(parts[-count:])}" for count in range(1, len(parts))]
    return next((name for name in names if name not in used_names), names[-1])
