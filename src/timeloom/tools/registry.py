"""Looks tools up by id or alias and suggests similar ids for an unknown one."""

from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import ClassVar, Final

from timeloom.core.blocks import ToolTraits, make_tool_error
from timeloom.core.blocks.tool_traits import CustomTraits, find_builtin_traits, resolve_traits
from timeloom.core.codes import CodedError
from timeloom.core.render.native_tools import decode_native_tools
from timeloom.ports.tool import Outcome, TimelineReader, Tool, ToolContext, ToolSpec
from timeloom.tools.parameters import check_tool_id, nearest_names

_NEAR: Final = 3
_SHOWN_CHARS: Final = 60


class ToolRegistry:
    """An immutable set of tools by id, so that the catalogue of a turn stays valid while the turn runs."""

    one_at_a_time: ClassVar[bool] = False
    """Whether a call must end before the next is admitted, also if a program makes several calls at once."""
    cites_files: bool = True
    """Whether files that calls produce enter the sources pool; a re-run of a log without such rows adds none."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._names: dict[str, Tool] = {}
        for tool in sorted(tools, key=_tool_id):
            self._tools[tool.spec.tool_id] = tool
            for name in (tool.spec.tool_id, *tool.spec.aliases):
                self._register(name, tool)
        self.custom_traits: CustomTraits = MappingProxyType(
            {
                name: traits
                for name, tool in self._names.items()
                if (traits := tool.spec.traits) is not None and traits != find_builtin_traits(name)
            }
        )
        """The traits that differ from the built-in ones, by id and alias; calls of these tools record them."""

    def get(self, name: str) -> Tool | None:
        """Return the tool with that id or alias, or None."""
        return self._names.get(name)

    def resolve(self, name: str) -> Tool:
        """Return the tool with that id or alias; otherwise an `UnknownTool` whose calls fail with similar ids."""
        return self._names.get(name) or UnknownTool(name, self._nearest_ids(name))

    def canonical_id(self, name: str) -> str:
        """Return the id of the tool with that id or alias; the name itself if there is none."""
        tool = self._names.get(name)
        return tool.spec.tool_id if tool else name

    def traits_of(self, name: str) -> ToolTraits:
        """Return the traits of the tool with that id or alias; the built-in ones if it declares none."""
        return resolve_traits(name, self.custom_traits.get(name))

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the specs for the catalogue, sorted by id."""
        return tuple(tool.spec for tool in self)

    def with_tools(self, tools: Iterable[Tool]) -> "ToolRegistry":
        """Return a registry that also contains these tools; raise if an id is already used."""
        return ToolRegistry([*self, *tools])

    def restrict_to(self, allowed: Iterable[str]) -> "ToolRegistry":
        """Return a registry of the allowed tools: by id, by alias, or a whole family with `family.*`.

        An allowed name without a tool is ignored: the list may be older or newer than the tools.
        """
        names = frozenset(allowed)
        return ToolRegistry(tool for tool in self if _is_allowed(tool.spec, names))

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def _register(self, name: str, tool: Tool) -> None:
        check_tool_id(name)
        if name in self._names:
            raise CodedError("tool_malformed", _explain_clash(name, self._names[name], tool))
        self._names[name] = tool

    def _nearest_ids(self, name: str) -> tuple[str, ...]:
        """Return ids with the same last word, which models confuse most, then ids with similar spelling."""
        last = name.rpartition(".")[2]
        same = [tool_id for tool_id in self._tools if last and tool_id.endswith(f".{last}")]
        alike = [self._names[close].spec.tool_id for close in nearest_names(name, self._names, _NEAR)]
        return tuple(dict.fromkeys([*same, *alike]))[:_NEAR]


def _tool_id(tool: Tool) -> str:
    if not hasattr(tool, "spec"):
        name = getattr(tool, "__name__", type(tool).__name__)
        raise CodedError("tool_malformed", f"{name!a} is not a tool; write @tool above the function")
    return tool.spec.tool_id


def _explain_clash(name: str, first: Tool, second: Tool) -> str:
    taken_by, other = _describe_tool(first), _describe_tool(second)
    if taken_by == other:
        return f"{name!a} is an id or alias of {taken_by}, which is listed twice; list it once"
    return f"{name!a} is an id or alias of {taken_by} and of {other}; give one of them another id"


def _describe_tool(tool: Tool) -> str:
    """Return the id of a tool, with the file and the line if the tool knows them."""
    place = str(getattr(tool, "place", ""))
    return f"{tool.spec.tool_id} ({place})" if place else tool.spec.tool_id


class UnknownTool:
    """A placeholder for an id without a tool: each call returns an error and runs nothing."""

    def __init__(self, name: str, near: tuple[str, ...] = ()) -> None:
        self._spec = ToolSpec(tool_id=name, purpose="There is no such tool.", effect="pure")
        self._near = near

    @property
    def spec(self) -> ToolSpec:
        """A spec with the requested id; its effect is `pure`, because a repeated call does nothing."""
        return self._spec

    async def call(self, params: str, context: ToolContext) -> Outcome:
        """Return an outcome with the error `unknown_tool`; it says so if the tool was removed."""
        name = self._spec.tool_id
        shown = f"{name[:_SHOWN_CHARS]!a}{'…' if len(name) > _SHOWN_CHARS else ''}"
        hint = f"; the nearest are {', '.join(self._near)}" if self._near else "; choose one of the catalogue"
        gone = "was removed, and only its function is left" if await _is_pinned(name, context.timeline) else ""
        message = f"the tool {shown} {gone}{hint}" if gone else f"there is no tool {shown}{hint}"
        return Outcome(error=make_tool_error("unknown_tool", message))


async def _is_pinned(tool_id: str, timeline: TimelineReader) -> bool:
    """Whether the conversation has pinned a function for the tool; such a list stays when a tool is removed."""
    pinned = timeline.views.native_tools.pinned
    text = pinned if isinstance(pinned, str) else (await timeline.payload(pinned)).decode()
    return any(one.tool_id == tool_id for one in decode_native_tools(text))


def _is_allowed(spec: ToolSpec, names: frozenset[str]) -> bool:
    family = spec.tool_id.rpartition(".")[0]
    return not names.isdisjoint((spec.tool_id, *spec.aliases, f"{family}.*", "*"))
