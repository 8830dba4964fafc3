"""The tools descriptor: which tools an agent of a bundle has."""

import re
from dataclasses import dataclass, field
from typing import Final, cast

from timeloom.bundles.descriptors.places import caller_place, malformed

ALL: Final = ("*",)
_ALIAS: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)
_MODULE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*)?")
_SHOWN_CHARS: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolModule:
    """A Python module whose tools the agent has."""

    module: str
    """The module, such as `shop.tools`, or one name in it, such as `shop.tools:TOOLS`. A module of the bundle's own
    package or folder is found first."""
    alias: str = ""
    """The family of its tools: `find` becomes `<alias>.find`. Empty keeps their ids."""
    tools: tuple[str, ...] = ALL
    """The tools of the module that the agent has, by id or by the last word of it."""
    place: str = field(default="", compare=False, repr=False)
    """The file and the line of the definition; found by itself."""

    def __post_init__(self) -> None:
        _set_place(self, self.place)
        if not _MODULE.fullmatch(str(self.module)):
            raise malformed(
                self.place, f"`module` is like `shop.tools` or `shop.tools:TOOLS`, got {_shown(self.module)}"
            )
        _check_alias(self.place, self.alias)
        check_names(self.place, "tools", self.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """A server of the Model Context Protocol whose tools the agent has."""

    server_id: str
    alias: str = ""
    """The family of its tools; empty is the id of the server."""
    tools: tuple[str, ...] = ALL
    """The tools of the server that the agent has."""
    place: str = field(default="", compare=False, repr=False)
    """The file and the line of the definition; found by itself."""

    def __post_init__(self) -> None:
        _set_place(self, self.place)
        if not _ALIAS.fullmatch(str(self.server_id)):
            raise malformed(self.place, f"`server_id` has letters, digits, `_` and `-`, got {_shown(self.server_id)}")
        _check_alias(self.place, self.alias)
        check_names(self.place, "tools", self.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsDescriptor:
    """The tools of an agent besides the built-in ones, and what it may use of all."""

    modules: tuple[ToolModule, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    allowed: tuple[str, ...] = ALL
    """The tools that the agent may use, also built-in ones: ids, and families such as `react.*`."""
    place: str = field(default="", compare=False, repr=False)
    """The file and the line of the definition; found by itself."""

    def __post_init__(self) -> None:
        _set_place(self, self.place)
        _check_items(self.place, "modules", self.modules, ToolModule)
        _check_items(self.place, "mcp_servers", self.mcp_servers, McpServer)
        check_names(self.place, "allowed", self.allowed)


def check_names(place: str, what: str, names: object) -> None:
    """Raise `descriptor_malformed` unless the value is a tuple of texts."""
    shown = _shown(names)
    items = cast("tuple[object, ...]", names) if isinstance(names, tuple) else (None,)
    if not all(isinstance(one, str) and one for one in items):
        raise malformed(place, f'`{what}` must be a tuple of names, such as ("find",), got {shown}')


def _check_items(place: str, what: str, values: object, kind: type[object]) -> None:
    shown = _shown(values)
    items = cast("tuple[object, ...]", values) if isinstance(values, tuple) else (None,)
    if not all(isinstance(one, kind) for one in items):
        raise malformed(place, f"`{what}` must be a tuple of {kind.__name__}, got {shown}")


def _check_alias(place: str, alias: object) -> None:
    if not isinstance(alias, str) or (alias and not _ALIAS.fullmatch(alias)):
        raise malformed(place, f"`alias` has letters, digits, `_` and `-` and no dot, got {_shown(alias)}")


def _set_place(value: object, place: str) -> None:
    object.__setattr__(value, "place", place or caller_place())


def _shown(value: object) -> str:
    return repr(value)[:_SHOWN_CHARS]
