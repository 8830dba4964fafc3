"""Reads `bundle.toml` and checks every key; an error names the key, the file and the line."""

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final, TypeVar, cast

import msgspec
from msgspec import Meta
from msgspec.structs import fields

from timeloom.bundles.fault import BundleError
from timeloom.core.policy.gates import TOOL_ID_PATTERN, TOOL_NAME_PATTERN
from timeloom.platform.toml_document import TomlDocument, TomlError, parse_toml, read_toml_text
from timeloom.platform.toml_lines import KeyPath

T = TypeVar("T")

FILE_NAME: Final = "bundle.toml"

MAX_BYTES: Final = 256 * 1024
"""Largest file. Less refuses long instructions; more reads a wrong file for seconds."""

NAME_PATTERN: Final = r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z"
"""The form of the names of bundles, channels and widgets, as a regular expression."""

_MIME_PATTERN: Final = r"\A[a-z0-9.+-]+/[a-z0-9.+*-]+\Z"

_EXPECTED: Final[Mapping[str, str]] = {
    f"Expected `str` matching regex {NAME_PATTERN!r}": "expected 1 to 64 letters, digits, `_` and `-`, without spaces",
    f"Expected `str` matching regex {_MIME_PATTERN!r}": "expected a type such as `text/plain`",
}
"""Sentences in place of regular expressions."""

MAX_ROUNDS: Final = 1000
"""Most rounds of a turn, as in the setting `react.max_iterations`."""

Rounds = Annotated[int, Meta(ge=1, le=MAX_ROUNDS)]
ToolNames = tuple[Annotated[str, Meta(pattern=TOOL_NAME_PATTERN)], ...]
CallLimits = Mapping[Annotated[str, Meta(pattern=TOOL_ID_PATTERN)], Annotated[int, Meta(ge=0, le=10**6)]]

_AT: Final = re.compile(r" - at `(?:key in )?\$(.*)`\Z")
_PART: Final = re.compile(r"\.([A-Za-z0-9_-]+)|\[(?:\d+|\.\.\.)\]")
_SHOWN_CHARS: Final = 60


class PolicyTable(msgspec.Struct, frozen=True, kw_only=True):
    """`[policies]`: rules for tool calls, beside those of the server."""

    ask_before: ToolNames = ()
    only_tools: ToolNames | None = None
    refuse: ToolNames = ()
    calls_per_turn: CallLimits = {}
    functions: tuple[str, ...] = ()


class RoundTable(msgspec.Struct, frozen=True, kw_only=True):
    """`[config.react]`: the rounds of a turn."""

    max_iterations: Rounds | None = None


class ReactTable(RoundTable, frozen=True, kw_only=True):
    """`[react]`: the built-in tools and the rounds of a turn."""

    tools: bool | tuple[str, ...] = True


class ConfigTable(msgspec.Struct, frozen=True, kw_only=True):
    """`[config]`: further names of settings."""

    react: RoundTable = RoundTable()


class ChannelTable(msgspec.Struct, frozen=True, kw_only=True):
    """`[channels.NAME]`: a channel that the model may write."""

    mime: Annotated[str, Meta(pattern=_MIME_PATTERN)]
    purpose: str = ""
    widget: str = ""


class WidgetTable(msgspec.Struct, frozen=True, kw_only=True):
    """`[widgets.NAME]`: an HTML document, as text or as a file of the bundle."""

    html: str = ""
    file: str = ""
    title: str = ""


class BundleTable(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of `bundle.toml`."""

    name: Annotated[str, Meta(pattern=NAME_PATTERN)]
    title: str = ""
    description: str = ""
    tools: tuple[str, ...] = ()
    tools_descriptor: str = ""
    skills_descriptor: str = ""
    instructions: str = ""
    instructions_file: str = ""
    policies: PolicyTable = PolicyTable()
    max_iterations: Rounds | None = None
    react: bool | tuple[str, ...] | ReactTable = True
    config: ConfigTable = ConfigTable()
    output: str = ""
    settings_type: str = ""
    settings: Mapping[str, object] = {}
    secrets: Mapping[str, str] = {}
    channels: Mapping[str, ChannelTable] = {}
    widgets: Mapping[str, WidgetTable] = {}
    workflow: str = ""
    skills: tuple[str, ...] = ()
    knowledge: tuple[str, ...] = ()
    mcp_servers: Mapping[str, Mapping[str, object]] = {}


_TABLES: Final[Mapping[KeyPath, type[msgspec.Struct]]] = {
    (): BundleTable,
    ("policies",): PolicyTable,
    ("react",): ReactTable,
    ("config",): ConfigTable,
    ("config", "react"): RoundTable,
    ("channels", "*"): ChannelTable,
    ("widgets", "*"): WidgetTable,
}


def read_bundle_file(folder: Path) -> tuple[BundleTable, TomlDocument]:
    """Read the `bundle.toml` of a folder; the document has the lines of the keys."""
    try:
        document = parse_toml(read_toml_text(folder / FILE_NAME, MAX_BYTES, regular=True), FILE_NAME)
    except TomlError as error:
        raise BundleError(str(error)) from error
    for path, kind in _TABLES.items():
        for at in _find_tables(document.values, path):
            table = _table_at(document.values, at)
            check_keys(document, at, table, [one.name for one in fields(kind)])
            if "*" in path:
                # Alone, because an error inside the whole document does not name the channel or widget.
                convert(document, at, table, kind)
    return convert(document, (), document.values, BundleTable), document


def check_keys(document: TomlDocument, path: KeyPath, table: Mapping[str, object], known: Iterable[str]) -> None:
    """Raise for the first key of the table that is not known."""
    names = list(known)
    for key in table:
        if key not in names:
            near = difflib.get_close_matches(key, names, 1)
            hint = f"did you mean `{near[0]}`? " if near else ""
            here = f"`{'.'.join(path)}`" if path else "a bundle"
            raise error_at(
                document,
                (*path, key),
                f"there is no key `{_shown('.'.join((*path, key)))}`; {hint}the keys of {here} are {', '.join(names)}",
            )


def convert(document: TomlDocument, path: KeyPath, value: object, kind: type[T]) -> T:
    """Convert the value at that path of the document; an error names its key, file and line."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text = str(error)
        found = _AT.search(text)
        inner = tuple(match[1] for match in _PART.finditer(found[1]) if match[1]) if found else ()
        if missing := re.search(r"missing required field `(\w+)`", text):
            at = (*path, *inner)
            raise error_at(document, at, f"the key `{'.'.join((*at, missing[1]))}` is missing") from error
        at = (*path, *inner)
        reason = text[: found.start()] if found else text
        plain = _EXPECTED.get(reason, f"{reason[:1].lower()}{reason[1:]}")
        raise error_at(document, at, f"`{_shown('.'.join(at))}`: {plain}") from error


def error_at(document: TomlDocument, path: KeyPath, message: str) -> BundleError:
    """Return an error at the line of that key."""
    return BundleError(message, file=document.name, line=document.line_of(path))


def _find_tables(values: Mapping[str, object], pattern: KeyPath) -> list[KeyPath]:
    """Return the paths of the tables that match the pattern, in which `*` is any name."""
    found: list[KeyPath] = [()]
    for part in pattern:
        found = [
            (*path, name)
            for path in found
            for name in _table_at(values, path)
            if part in (name, "*") and isinstance(_table_at(values, path)[name], dict)
        ]
    return found


def _table_at(values: Mapping[str, object], path: KeyPath) -> Mapping[str, object]:
    for name in path:
        values = cast("Mapping[str, object]", values[name])
    return values


def _shown(text: str) -> str:
    return ascii(text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…")[1:-1]
