"""Resolves each setting to the value with the highest precedence."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Final, Literal, cast

import msgspec

from timeloom.config.catalogue import OTHER_VARIABLES, PREFIX, SETTING_SPECS, SettingSpec, build_settings
from timeloom.config.parse_value import convert_value, parse_text
from timeloom.config.settings import Settings
from timeloom.config.toml_file import ConfigFile

Level = Literal["default", "file", "variable", "bundle", "option"]
"""The kind of source of a value; each level overrides those before it."""

LEVELS: Final[tuple[Level, ...]] = ("default", "file", "variable", "bundle", "option")


class SettingSources(msgspec.Struct, frozen=True, kw_only=True):
    """All sources of settings: options and variables as text, bundle properties and the file as values.

    Options override the bundle, because they are meant for this run. The bundle overrides variables and the file,
    because those apply to everything on a machine and the bundle knows its task better.
    """

    command_line: Mapping[str, str] = {}
    """Options by the key of the setting."""
    bundle: Mapping[str, object] = {}
    """Properties, nested or with dots in their names."""
    environ: Mapping[str, str] = {}
    file: ConfigFile | None = None


class SettingOrigin(msgspec.Struct, frozen=True):
    """The source of a value; `place` is the option, property, variable, or key and line of the file."""

    level: Level = "default"
    place: str = "default"


class ResolvedValue(msgspec.Struct, frozen=True):
    """The value of a setting and its origin."""

    value: object
    origin: SettingOrigin


class LoadedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings, the origin of each by key, and warnings for the user."""

    settings: Settings
    origins: Mapping[str, SettingOrigin]
    warnings: tuple[str, ...] = ()


def resolve(sources: SettingSources) -> LoadedSettings:
    """Resolve all settings; raise `ConfigError` for the first invalid one."""
    resolved = {row.key: resolve_value(row, sources) for row in SETTING_SPECS}
    return LoadedSettings(
        settings=build_settings({key: one.value for key, one in resolved.items()}),
        origins={key: one.origin for key, one in resolved.items()},
        warnings=tuple(warn_about_unknown_variables(sources.environ)),
    )


def resolve_value(row: SettingSpec, sources: SettingSources) -> ResolvedValue:
    """Return the value of this setting from the source with the highest precedence."""
    if row.key in sources.command_line:
        option = row.help.option
        return ResolvedValue(parse_text(row, sources.command_line[row.key], option), SettingOrigin("option", option))
    for name in row.help.properties:
        value = _find_property(sources.bundle, name)
        if value is not None:
            place = f"{name} of the bundle"
            return ResolvedValue(convert_value(row, value, place), SettingOrigin("bundle", place))
    for variable in row.variables:
        # An empty variable counts as unset, because some environments cannot unset one.
        if text := sources.environ.get(variable, "").strip():
            return ResolvedValue(parse_text(row, text, variable), SettingOrigin("variable", variable))
    if sources.file and (in_file := sources.file.values.get(row.key)):
        return ResolvedValue(in_file.value, SettingOrigin("file", in_file.place))
    return ResolvedValue(row.default, SettingOrigin())


def warn_about_unknown_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for every variable with the prefix that is not a setting."""
    known = {variable for row in SETTING_SPECS for variable in row.variables} | OTHER_VARIABLES
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name[:80], sorted(known), 1)
            hint = f"did you mean {near[0]}?" if near else "`timeloom settings` lists all settings"
            yield f"the variable {ascii(name[:80])[1:-1]} is not a setting; {hint}"


def _find_property(properties: Mapping[str, object], name: str) -> object:
    """Return the property of that name, else follow its dots into nested objects; None if it is missing."""
    if name in properties:
        return properties[name]
    first, _, rest = name.partition(".")
    nested = properties.get(first)
    return _find_property(cast("Mapping[str, object]", nested), rest) if rest and isinstance(nested, Mapping) else None
