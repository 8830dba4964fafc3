"""The catalogue of settings, derived from the types in `settings`."""

from collections.abc import Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Final, TypeGuard, TypeVar, get_args

import msgspec

from timeloom.config.field_help import SettingHelp
from timeloom.config.found_file import ALLOWED
from timeloom.config.settings import Settings

CONFIG_OPTION: Final = "--config"
CONFIG_VARIABLE: Final = "TIMELOOM_CONFIG"
CONFIG_NAME: Final = "timeloom.toml"
PREFIX: Final = "TIMELOOM_"

OTHER_VARIABLES: Final = frozenset(
    {
        CONFIG_VARIABLE,
        "TIMELOOM_CRASH_KILLS",
        "TIMELOOM_DOCKER_SOCKET",
        "TIMELOOM_CRASH_SEEDS",
        "TIMELOOM_FUZZ_RUNS",
        "TIMELOOM_HTTP_KILLS",
        "TIMELOOM_HTTP_SEED",
        "TIMELOOM_HYPOTHESIS",
        "TIMELOOM_NEEDLES",
        "TIMELOOM_POWER_CUTS",
        "TIMELOOM_SCREENSHOTS",
        "TIMELOOM_WRITE_GOLDEN",
    }
)
"""Variables with the prefix that are not settings: the path of the file, and options of this project's tests."""

S = TypeVar("S", bound=msgspec.Struct)


class SettingSpec(msgspec.Struct, frozen=True):
    """A setting: its key, type, default and help."""

    key: str
    type: object
    default: object
    help: SettingHelp

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that set it, in order of precedence."""
        return (PREFIX + self.key.replace(".", "_").upper(), *self.help.variables)

    @property
    def keys(self) -> tuple[str, ...]:
        """Its keys in the TOML file."""
        return (self.key, *self.help.keys)


def describe_how_to_set(key: str) -> str:
    """Describe how to set this setting, for error messages."""
    row = SPEC_BY_KEY[key]
    ways = [f"the option {row.help.option}"] if row.help.option else []
    named = "" if row.key in ALLOWED else f" with {CONFIG_OPTION} {CONFIG_NAME}"
    return f"{', '.join([*ways, f'the variable {row.variables[0]}'])} or `{row.key}` in {CONFIG_NAME}{named}"


def get_value(settings: Settings, key: str) -> object:
    """Return the value of a key in these settings."""
    return attrgetter(key)(settings)


def build_settings(values: Mapping[str, object]) -> Settings:
    """Return settings with these values, which must have the right types; all other settings get their defaults."""
    return _build_group(Settings, values, "")


def _build_group(group: type[S], values: Mapping[str, object], prefix: str) -> S:
    arguments: dict[str, object] = {}
    for field in msgspec.structs.fields(group):
        key = prefix + field.name
        if _is_group(field.type):
            arguments[field.name] = _build_group(field.type, values, f"{key}.")
        elif key in values:
            arguments[field.name] = values[key]
    return group(**arguments)


def _collect_specs(group: type[msgspec.Struct], prefix: str = "") -> Iterator[SettingSpec]:
    defaults = group()
    for field in msgspec.structs.fields(group):
        key = prefix + field.name
        if _is_group(field.type):
            yield from _collect_specs(field.type, f"{key}.")
        else:
            setting_help = next(said for said in get_args(field.type) if isinstance(said, SettingHelp))
            yield SettingSpec(
                key,
                field.type,
                getattr(defaults, field.name),
                setting_help.for_group(group=prefix.rstrip(".").rpartition(".")[2]),
            )


def _is_group(kind: object) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


SETTING_SPECS: Final = tuple(_collect_specs(Settings))
SPEC_BY_KEY: Final = MappingProxyType({row.key: row for row in SETTING_SPECS})
