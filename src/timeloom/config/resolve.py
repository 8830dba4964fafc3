"""Resolving: of all that is said about a setting, what counts most."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Final, Literal, cast

import msgspec

from timeloom.config.catalogue import OTHER_VARIABLES, PREFIX, ROWS, Row, assembled
from timeloom.config.parse_value import from_text, from_value
from timeloom.config.settings import Settings
from timeloom.config.toml_file import ConfigFile

Level = Literal["default", "file", "variable", "bundle", "option"]
"""Who said a value; each counts more than those before it."""

LEVELS: Final[tuple[Level, ...]] = ("default", "file", "variable", "bundle", "option")


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """All that is said: options and variables as text, a bundle's properties and a file as values.

    The command line stands over the bundle, because whoever types an option means this run. Variables and the file
    stand under it: they are set for everything on a machine, and a bundle knows its own task better.
    """

    command_line: Mapping[str, str] = {}
    """By the key of the setting."""
    bundle: Mapping[str, object] = {}
    """Nested, or with dots in the names."""
    environ: Mapping[str, str] = {}
    file: ConfigFile | None = None


class Origin(msgspec.Struct, frozen=True):
    """Where a value comes from: `place` is the option, property, variable, or key and line of the file."""

    level: Level = "default"
    place: str = "default"


class Found(msgspec.Struct, frozen=True):
    """The value of a setting, and where it comes from."""

    value: object
    origin: Origin


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """The settings, where each of them comes from by its key, and what their user should know."""

    settings: Settings
    origins: Mapping[str, Origin]
    warnings: tuple[str, ...] = ()


def resolve(sources: Sources) -> Loaded:
    """The settings that count; raises `ConfigError` for the first that cannot be taken."""
    found = {row.key: find(row, sources) for row in ROWS}
    return Loaded(
        settings=assembled({key: one.value for key, one in found.items()}),
        origins={key: one.origin for key, one in found.items()},
        warnings=tuple(unknown_variables(sources.environ)),
    )


def find(row: Row, sources: Sources) -> Found:
    """What counts for this setting."""
    if row.key in sources.command_line:
        option = row.about.option
        return Found(from_text(row, sources.command_line[row.key], option), Origin("option", option))
    for name in row.about.properties:
        said = _property(sources.bundle, name)
        if said is not None:
            place = f"{name} of the bundle"
            return Found(from_value(row, said, place), Origin("bundle", place))
    for variable in row.variables:
        # Whoever cannot unset a variable empties it.
        if text := sources.environ.get(variable, "").strip():
            return Found(from_text(row, text, variable), Origin("variable", variable))
    if sources.file and (there := sources.file.values.get(row.key)):
        return Found(there.value, Origin("file", there.place))
    return Found(row.default, Origin())


def unknown_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """A sentence for every variable that looks like a setting and is none."""
    known = {variable for row in ROWS for variable in row.variables} | OTHER_VARIABLES
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name[:80], sorted(known), 1)
            hint = f"did you mean {near[0]}?" if near else "`timeloom settings` lists those there are"
            yield f"the variable {ascii(name[:80])[1:-1]} sets nothing; {hint}"


def _property(properties: Mapping[str, object], name: str) -> object:
    """The property under its whole name, or step by step; nothing where it is not there."""
    if name in properties:
        return properties[name]
    first, _, rest = name.partition(".")
    inside = properties.get(first)
    return _property(cast("Mapping[str, object]", inside), rest) if rest and isinstance(inside, Mapping) else None
