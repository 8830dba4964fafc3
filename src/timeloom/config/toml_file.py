"""Reads the TOML settings file and checks every key and value."""

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, cast

import msgspec

from timeloom.config.catalogue import CONFIG_OPTION, CONFIG_VARIABLE, SETTING_SPECS, SettingSpec
from timeloom.config.errors import ConfigError
from timeloom.config.found_file import explain_refusal
from timeloom.config.parse_value import convert_value
from timeloom.platform.secrets import REFERENCE_FORMS, is_reference, parse_reference
from timeloom.platform.toml_document import TomlDocument, TomlError, parse_toml, read_toml_text
from timeloom.platform.toml_lines import KeyPath

MAX_BYTES: Final = 256 * 1024
"""Largest file. A smaller limit rejects long price tables; with a larger one, a wrong file is read for seconds."""

_SHOWN_CHARS: Final = 80
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")

_BY_PATH: Final[Mapping[KeyPath, SettingSpec]] = {
    tuple(key.split(".")): row for row in SETTING_SPECS for key in row.keys
}
_GROUPS: Final = frozenset(path[:end] for path in _BY_PATH for end in range(1, len(path)))

Locate = Callable[[KeyPath], str]
"""Returns the file and line of a key."""


class FileValue(msgspec.Struct, frozen=True):
    """A value in the file, and its key and line."""

    value: object
    place: str


class ConfigFile(msgspec.Struct, frozen=True):
    """The values of a settings file by key."""

    values: Mapping[str, FileValue]


def read_config(path: Path, *, is_explicit: bool) -> ConfigFile:
    """Read a settings file; paths in it are relative to its folder. `is_explicit`: the user named the file."""
    text = read_text(path, MAX_BYTES, regular=not is_explicit)
    return parse_config(text, path.name, path.parent, is_explicit=is_explicit)


def read_text(path: Path, max_bytes: int, *, regular: bool = False) -> str:
    """Return the text of a file up to `max_bytes`, without a byte order mark; `regular` rejects pipes and devices."""
    try:
        return read_toml_text(path, max_bytes, regular=regular)
    except TomlError as error:
        raise ConfigError("config_unreadable", str(error)) from error


def parse_config(text: str, name: str, folder: Path, *, is_explicit: bool) -> ConfigFile:
    """Parse the text of a settings file; `name` and `folder` are those of the file."""
    document = _parse_toml(text, name)
    values: dict[str, FileValue] = {}
    refusals: dict[str, list[str]] = {}
    for path, raw in _flatten(document.values, (), document.locate):
        row, here = _BY_PATH[path], f"{_format_key(path)} in {document.locate(path)}"
        _check_no_secret(row, raw, here)
        if row.key in values:
            raise ConfigError("setting_invalid", f"{here} sets the same as {values[row.key].place}; remove one")
        value = convert_value(row, raw, here)
        values[row.key] = FileValue(_anchor(row, value, folder), here)
        if not is_explicit and (reason := explain_refusal(row.key, value, row.default)):
            refusals.setdefault(reason, []).append(here)
    if refusals:
        texts = [_explain_places(reason, places) for reason, places in refusals.items()]
        raise ConfigError("setting_invalid", f"{'; '.join(texts)}. {_explain_found_file(name)}")
    return ConfigFile(values)


def _parse_toml(text: str, name: str) -> TomlDocument:
    try:
        return parse_toml(text, name)
    except TomlError as error:
        raise ConfigError("config_unreadable", str(error)) from error


def _flatten(table: Mapping[str, object], above: KeyPath, locate: Locate) -> Iterator[tuple[KeyPath, object]]:
    for part, value in table.items():
        path = (*above, part)
        if path in _BY_PATH:
            yield path, value
        elif path not in _GROUPS:
            raise ConfigError("setting_unknown", f"{locate(path)}: {_explain_unknown(path)}")
        elif isinstance(value, dict):
            yield from _flatten(cast("dict[str, object]", value), path, locate)
        else:
            inside = ", ".join(f"`{_format_key(known)}`" for known in _BY_PATH if known[: len(path)] == path)
            raise ConfigError(
                "setting_invalid",
                f"{locate(path)}: `{_format_key(path)}` is a group and takes no value; it contains {inside}",
            )


def _check_no_secret(row: SettingSpec, raw: object, here: str) -> None:
    values = list(cast("dict[str, object]", raw).values()) if isinstance(raw, dict) else [raw]
    if row.help.secret and not all(isinstance(one, str) and is_reference(one) for one in values):
        detail = (
            f"is a secret, and files are easily shared; write a reference ({REFERENCE_FORMS}), or set the variable "
            f"{row.variables[-1]} instead"
        )
        raise ConfigError("setting_invalid", f"{here} {detail}")


def _anchor(row: SettingSpec, value: object, folder: Path) -> object:
    """Return the value with its path, or the path of its secret, relative to the folder of the file."""
    if isinstance(value, Path):
        return folder / value
    if row.help.secret and isinstance(value, str):
        return _anchor_reference(value, folder)
    if row.help.secret and isinstance(value, dict):
        references = cast("dict[str, str]", value)
        return {name: _anchor_reference(one, folder) for name, one in references.items()}
    return value


def _anchor_reference(reference: str, folder: Path) -> str:
    return str(parse_reference(reference).anchored(folder))


def _explain_places(reason: str, places: list[str]) -> str:
    """Return the sentence of the reason once, for all settings that it concerns."""
    first, *others = places
    return f"{first} {reason}; the same holds for {', '.join(others)}" if others else f"{first} {reason}"


def _explain_found_file(name: str) -> str:
    return (
        f"{name} was found in this folder and not named, so it may not set this. If you trust the file, pass "
        f"{CONFIG_OPTION} {name} or set {CONFIG_VARIABLE}; to run without it, pass {CONFIG_OPTION} {os.devnull}"
    )


def _explain_unknown(path: KeyPath) -> str:
    key = _format_key(path)
    near = difflib.get_close_matches(key, [".".join(known) for known in (*_BY_PATH, *sorted(_GROUPS))], 1)
    hint = f"did you mean `{near[0]}`?" if near else "`timeloom settings` lists all settings"
    return f"there is no setting `{key}`; {hint}"


def _format_key(path: KeyPath) -> str:
    key = ".".join(part if _BARE.fullmatch(part) else ascii(part) for part in path)
    return key if len(key) <= _SHOWN_CHARS else f"{key[:_SHOWN_CHARS]}…"
