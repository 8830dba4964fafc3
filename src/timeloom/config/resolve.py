"""Resolves each setting to the value with the highest precedence."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Final, Literal, cast

import msgspec

from timeloom.config.catalogue import OTHER_VARIABLES, PREFIX, ROWS, Row, assembled
from timeloom.config.parse_value import from_text, from_value
from timeloom.config.settings import Settings
from timeloom.config.toml_file import ConfigFile

Level = Literal["default", "file", "variable", "bundle", "option"]
"""The kind of source of a value; each level overrides those before it."""

LEVELS: Final[tuple[Level, ...]] = ("default", "file", "variable", "bundle", "option")


class Sources(msgspec.Struct, frozen=True, kw_only=True):
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


class Origin(msgspec.Struct, frozen=True):
    """The source of a value; `place` is the option, property, variable, or key and line of the file."""

    level: Level = "default"
    place: str = "default"


class Found(msgspec.Struct, frozen=True):
    """The value of a setting and its origin."""

    value: object
    origin: Origin


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """The settings, the origin of each by key, and warnings for the user."""

    settings: Settings
    origins: Mapping[str, Origin]
    warnings: tuple[str, ...] = ()


def resolve(sources: Sources) -> Loaded:
    """Resolve all settings; raise `ConfigError` for the first invalid one."""
    found = {row.key: find(row, sources) for row in ROWS}
    return Loaded(
        settings=assembled({key: one.value for key, one in found.items()}),
        origins={key: one.origin for key, one in found.items()},
        warnings=tuple(unknown_variables(sources.environ)),
    )


def find(row: Row, sources: Sources) -> Found:
    """Return the value of this setting from the source with the highest precedence."""
    if row.key in sources.command_line:
        option = row.about.option
        return Found(from_text(row, sources.command_line[row.key], option), Origin("option", option))
    for name in row.about.properties:
        said = _property(sources.bundle, name)
        if said is not None:
            place = f"{name} of the bundle"
            return Found(from_value(row, said, place), Origin("bundle", place))
    for variable in row.variables:
        # An empty variable counts as unset, because some environments cannot unset one.
        if text := sources.environ.get(variable, "").strip():
            return Found(from_text(row, text, variable), Origin("variable", variable))
    if sources.file and (there := sources.file.values.get(row.key)):
        return Found(there.value, Origin("file", there.place))
    return Found(row.default, Origin())


def unknown_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for every variable with the prefix that is not a setting."""
    known = {variable for row in ROWS for variable in row.variables} | OTHER_VARIABLES
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name[:80], sorted(known), 1)
            hint = f"did you mean {near[0]}?" if near else "`timeloom settings` lists all settings"
            yield f"the variable {ascii(name[:80])[1:-1]} is not a setting; {hint}"


def _property(properties: Mapping[str, object], name: str) -> object:
    """Return the property of that name, else follow its dots into nested objects; None if it is missing."""
    if name in properties:
        return properties[name]
    first, _, rest = name.partition(".")
    inside = properties.get(first)
    return _property(cast("Mapping[str, object]", inside), rest) if rest and isinstance(inside, Mapping) else None
