"""Reads the module forms of descriptors: one descriptor value, or the constants of the V3 descriptors."""

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from pathlib import PurePath
from types import ModuleType
from typing import Final, TypeVar, cast

from timeloom.bundles.descriptors.places import malformed, module_file, place_of_constant
from timeloom.bundles.descriptors.skills import SkillRule, SkillsDescriptor
from timeloom.bundles.descriptors.tools import ALL, McpServer, ToolModule, ToolsDescriptor

TOOL_CONSTANTS: Final = ("TOOLS_SPECS", "MCP_TOOL_SPECS", "ALLOWED_TOOLS")
SKILL_CONSTANTS: Final = ("CUSTOM_SKILLS_ROOT", "AGENTS_CONFIG")

CACHED_MODULES: Final = 64
"""Modules whose descriptors are kept, because each turn asks for them. A changed file is another module."""

T = TypeVar("T")
_Row = Mapping[str, object]


@lru_cache(maxsize=CACHED_MODULES)
def read_tools_module(module: ModuleType) -> ToolsDescriptor:
    """Return the descriptor of the module: a `ToolsDescriptor`, or the constants `TOOLS_SPECS` and `MCP_TOOL_SPECS`.

    Raises `descriptor_malformed` with the file and line.
    """
    if found := _find_value(module, ToolsDescriptor, TOOL_CONSTANTS):
        return found
    return ToolsDescriptor(
        modules=_read_rows(module, "TOOLS_SPECS", _to_tool_module),
        mcp_servers=_read_rows(module, "MCP_TOOL_SPECS", _to_mcp_server),
        allowed=_texts(getattr(module, "ALLOWED_TOOLS", ALL)),
        place=_first_place(module, TOOL_CONSTANTS),
    )


@lru_cache(maxsize=CACHED_MODULES)
def read_skills_module(module: ModuleType) -> SkillsDescriptor:
    """Return the descriptor of the module: a `SkillsDescriptor`, or `CUSTOM_SKILLS_ROOT` and `AGENTS_CONFIG`.

    Raises `descriptor_malformed` with the file and line.
    """
    if found := _find_value(module, SkillsDescriptor, SKILL_CONSTANTS):
        return found
    root: object = getattr(module, "CUSTOM_SKILLS_ROOT", None)
    if root is not None and not isinstance(root, str | PurePath):
        place = place_of_constant(module, "CUSTOM_SKILLS_ROOT")
        raise malformed(place, f"CUSTOM_SKILLS_ROOT must be a folder or None, got {type(root).__name__}")
    place = place_of_constant(module, "AGENTS_CONFIG")
    agents = _fields(place, "AGENTS_CONFIG", getattr(module, "AGENTS_CONFIG", {}), None)
    return SkillsDescriptor(
        roots=(str(root),) if root else (),
        agents={name: _to_skill_rule(place, name, rule) for name, rule in agents.items()},
        place=_first_place(module, SKILL_CONSTANTS),
    )


def _find_value(module: ModuleType, kind: type[T], constants: tuple[str, ...]) -> T | None:
    """Return the only value of that type; None if the module has constants instead."""
    found = [value for value in vars(module).values() if isinstance(value, kind)]
    if len({id(one) for one in found}) > 1:
        raise malformed(module_file(module), f"expected one {kind.__name__}, found {len(found)}; keep one of them")
    if not found and not any(hasattr(module, name) for name in constants):
        raise malformed(
            module_file(module), f"the module has no {kind.__name__}; define one, or {' or '.join(constants)}"
        )
    return found[0] if found else None


def _read_rows(module: ModuleType, name: str, convert: Callable[[str, _Row], T]) -> tuple[T, ...]:
    rows: object = getattr(module, name, ())
    if not isinstance(rows, list | tuple):
        raise malformed(
            place_of_constant(module, name), f"{name} must be a list of mappings, got {type(rows).__name__}"
        )
    items = cast("list[object] | tuple[object, ...]", rows)
    places = [place_of_constant(module, name, at) for at in range(len(items))]
    return tuple(convert(place, cast(_Row, row)) for place, row in zip(places, items, strict=True))


def _to_tool_module(place: str, row: object) -> ToolModule:
    fields = _fields(place, "an entry of TOOLS_SPECS", row, ("module", "ref", "alias", "tools"))
    named = [name for name in ("module", "ref") if name in fields]
    if len(named) != 1:
        raise malformed(place, "an entry of TOOLS_SPECS has either `module`, such as `shop.tools`, or `ref`, a file")
    module = _text(place, named[0], fields[named[0]])
    if named == ["ref"]:
        module = ".".join(PurePath(module).with_suffix("").parts)
    alias = _text(place, "alias", fields.get("alias", ""))
    return ToolModule(module=module, alias=alias, tools=_texts(fields.get("tools", ALL)), place=place)


def _to_mcp_server(place: str, row: object) -> McpServer:
    fields = _fields(place, "an entry of MCP_TOOL_SPECS", row, ("server_id", "alias", "tools"))
    return McpServer(
        server_id=_text(place, "server_id", fields.get("server_id", "")),
        alias=_text(place, "alias", fields.get("alias", "")),
        tools=_texts(fields.get("tools", ALL)),
        place=place,
    )


def _to_skill_rule(place: str, name: str, row: object) -> SkillRule:
    fields = _fields(place, f"the agent {name}", row, ("enabled", "disabled"))
    enabled, disabled = _texts(fields.get("enabled", ALL)), _texts(fields.get("disabled", ()))
    return SkillRule(enabled=enabled, disabled=disabled, place=place)


def _fields(place: str, what: str, row: object, known: Collection[str] | None) -> dict[str, object]:
    """Return the row as a mapping with texts as names, all of them known."""
    if not isinstance(row, Mapping):
        raise malformed(place, f"{what} must be a mapping, got {type(row).__name__}")
    fields = {str(name): value for name, value in cast("Mapping[object, object]", row).items()}
    if known is not None and (unknown := sorted(fields.keys() - set(known))):
        raise malformed(place, f"{what} has no field {unknown[0][:40]!r}; its fields are {', '.join(known)}")
    return fields


def _text(place: str, name: str, value: object) -> str:
    if not isinstance(value, str):
        raise malformed(place, f"`{name}` must be a text, got {type(value).__name__}")
    return value


def _texts(value: object) -> tuple[str, ...]:
    """Return a list as a tuple; the descriptor checks its items."""
    return cast("tuple[str, ...]", tuple(cast("list[object]", value)) if isinstance(value, list) else value)


def _first_place(module: ModuleType, names: Collection[str]) -> str:
    return next((place_of_constant(module, name) for name in names if hasattr(module, name)), module_file(module))
