"""The bundle whose code runs now: `get_settings`, `get_plain`, `get_secret` and `get_scratchpad` answer for it.

Each tool, hook and workflow of a bundle runs inside `use_bundle`. A context variable carries it into tasks and threads,
so two bundles that run at the same time never see each other's values.
"""

from collections.abc import Generator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar, cast, overload

import msgspec

from timeloom.core.codes import CodedError
from timeloom.platform.secrets import SecretText, resolve_secret

T = TypeVar("T")

MAX_PLAIN_DEPTH: Final = 32
"""Most names in the path of a plain setting. No settings are nested as deep; more only costs time."""

OWN_SECRET: Final = "b:"
"""The beginning of the names of a bundle's own secrets."""

_SHOWN_CHARS: Final = 60
_LISTED_CHARS: Final = 400
_MISSING: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleContext:
    """The values of one bundle that its code may read."""

    bundle: str
    """The name of the bundle."""
    settings: msgspec.Struct | None = None
    plain: Mapping[str, object] = field(default_factory=dict[str, object])
    """Settings as plain values. Without them, `get_plain` reads the typed settings."""
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """References to the bundle's own secrets by name."""
    server_secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """References to the secrets that the settings of the server offer to all bundles."""
    scratchpad: MutableMapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """Values that the code of one turn shares in memory."""


_current: Final[ContextVar[BundleContext | None]] = ContextVar("timeloom_bundle", default=None)


@contextmanager
def use_bundle(context: BundleContext) -> Generator[BundleContext]:
    """Let the functions of this module answer for that bundle until the context exits, in this task and its tasks."""
    token = _current.set(context)
    try:
        yield context
    finally:
        _current.reset(token)


@contextmanager
def enter_bundle(context: BundleContext) -> Generator[None]:
    """Do the same as `use_bundle`, unless code of that bundle runs already: then its values and scratchpad stay."""
    running = _current.get()
    if running and running.bundle == context.bundle:
        yield
        return
    with use_bundle(context):
        yield


def set_scratchpad(scratchpad: MutableMapping[str, object]) -> None:
    """Use that scratchpad in the rest of the running task."""
    _current.set(replace(current_bundle(), scratchpad=scratchpad))


def find_bundle() -> BundleContext | None:
    """Return the context of the running bundle; None outside of one."""
    return _current.get()


def current_bundle() -> BundleContext:
    """Return the context of the running bundle; raises `bundle_context_missing` outside of one."""
    context = _current.get()
    if context is None:
        raise CodedError(
            "bundle_context_missing", "no bundle runs here; call this inside a tool, a hook or the workflow of a bundle"
        )
    return context


@overload
def get_settings() -> msgspec.Struct: ...


@overload
def get_settings(kind: type[T]) -> T: ...


def get_settings(kind: type[T] | None = None) -> T | msgspec.Struct:
    """Return the typed settings of the running bundle; pass their type so that type checkers know it.

    Raises `bundle_setting_unknown` if the bundle has no settings, or settings of another type.
    """
    context = current_bundle()
    if context.settings is not None and (kind is None or isinstance(context.settings, kind)):
        return context.settings
    if kind is not None and context.settings is None and context.plain:
        return _convert_plain(context, kind)
    found = type(context.settings).__name__ if context.settings is not None else "none"
    wanted = f" of type {kind.__name__}" if kind else ""
    raise CodedError(
        "bundle_setting_unknown", f"the bundle {context.bundle} has no settings{wanted}; its settings are {found}"
    )


def get_plain(path: str, default: object = _MISSING) -> object:
    """Return one setting of the running bundle by its dotted path, such as `limits.rows`, as a plain value.

    Raises `bundle_setting_unknown` if there is none and no default is given.
    """
    context = current_bundle()
    value: object = context.plain or (msgspec.to_builtins(context.settings) if context.settings is not None else {})
    for name in path.split(".", MAX_PLAIN_DEPTH):
        table = cast("Mapping[str, object]", value if isinstance(value, Mapping) else {})
        if name not in table:
            if default is not _MISSING:
                return default
            known = ", ".join(sorted(map(str, table))) or "none"
            raise CodedError(
                "bundle_setting_unknown",
                f"the bundle {context.bundle} has no setting {path[:_SHOWN_CHARS]!a}; known here: {known}",
            )
        value = table[name]
    return value


def get_secret(name: str) -> SecretText:
    """Return a secret of the running bundle as `b:NAME`, or one of the server's setting `secrets` as `NAME`.

    The value is read now, and removed from results, logs and spans from now on. A `command:` may block for 20 seconds,
    so async code calls `await asyncio.to_thread(get_secret, name)`. Raises `secret_unknown` or `secret_unavailable`.
    """
    context = current_bundle()
    is_own = name.startswith(OWN_SECRET)
    known, bare = (context.secrets, name.removeprefix(OWN_SECRET)) if is_own else (context.server_secrets, name)
    if bare not in known:
        names = ", ".join(sorted(known)) or "none"
        owner = f"the bundle {context.bundle}" if is_own else "the server"
        raise CodedError(
            "secret_unknown", f"{owner} has no secret {bare[:_SHOWN_CHARS]!a}; known there: {names[:_LISTED_CHARS]}"
        )
    return resolve_secret(known[bare])


def get_scratchpad() -> MutableMapping[str, object]:
    """Return the scratchpad of the running turn, which its workflow and its tools share in memory."""
    return current_bundle().scratchpad


def _convert_plain(context: BundleContext, kind: type[T]) -> T:
    """Return the plain settings as that type; a sandbox's supervisor knows no others."""
    try:
        return msgspec.convert(context.plain, kind, strict=False)
    except (msgspec.ValidationError, TypeError) as error:
        raise CodedError(
            "bundle_setting_unknown",
            f"the settings of the bundle {context.bundle} do not fit {kind.__name__}: {error}",
        ) from error
