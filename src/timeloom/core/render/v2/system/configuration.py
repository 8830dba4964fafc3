"""The configuration that a system text is written for, and the facts about it that conditions test."""

from collections.abc import Iterator
from typing import Final, cast

import msgspec

from timeloom.core.blocks.round import ReplyProtocol
from timeloom.core.render.catalogue import CatalogueSkill, CatalogueTool
from timeloom.core.render.v2.system.sections import ALWAYS
from timeloom.core.stream.declared import NO_CHANNELS, DeclaredChannel

RAW_PARAMS: Final = ("content", "patch")
"""String parameters that a reply may give in a channel of their own."""

FACTS: Final = (
    *(ALWAYS, "tools", "code", "plain_tools", "irreversible"),
    *("answer_tools", "several_actions", "skills", "output", "declared"),
)
"""The facts without a name."""

NAMED_FACTS: Final = ("tool", "skill", "channel", "protocol", "output", "edition")
"""The facts with a name, such as `tool:react.read`."""

_REPLY_CHANNELS: Final = ("thinking", "action", "notes", "final_answer", "summary")


class SystemConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides which sections a system text has."""

    edition: int = 2
    """The edition of the turn: 2, or a later one that has these sections too."""
    tools: tuple[CatalogueTool, ...] = ()
    skills: tuple[CatalogueSkill, ...] = ()
    several_actions: bool = False
    protocol: ReplyProtocol = "channels"
    output_types: tuple[str, ...] = ()
    """The names of typed outputs that the answer must have."""
    output_schema: str = ""
    """The JSON schema of the answer; empty for plain text."""
    channels: tuple[DeclaredChannel, ...] = NO_CHANNELS
    """The channels that the agent declares beside the built-in ones."""
    functions: frozenset[str] = frozenset()
    """With native tool calls: the ids of the tools that have a function of their own."""

    def listed_tools(self) -> tuple[CatalogueTool, ...]:
        """Return the tools of the catalogue; with native tool calls, those that have no function."""
        if self.protocol == "channels":
            return self.tools
        return tuple(tool for tool in self.tools if tool.tool_id not in self.functions)

    def facts(self) -> frozenset[str]:
        """Return the facts that hold for this configuration."""
        return frozenset(self._facts())

    def code_tool(self) -> CatalogueTool | None:
        """Return the tool that runs the program of the code channel, if there is one."""
        return min((tool for tool in self.tools if tool.runs_code), key=lambda tool: tool.tool_id, default=None)

    def answer_tools(self) -> tuple[str, ...]:
        """Return the ids of the tools that a final answer may follow in the same reply."""
        return tuple(sorted(tool.tool_id for tool in self.tools if tool.allows_answer))

    def _facts(self) -> Iterator[str]:
        yield f"protocol:{self.protocol}"
        yield f"edition:{self.edition}"
        yield from (f"tool:{tool.tool_id}" for tool in self.tools)
        yield from (f"skill:{skill.ref}" for skill in self.skills)
        yield from (f"output:{name}" for name in self.output_types)
        found = {
            "tools": self.tools,
            "code": self.code_tool(),
            "plain_tools": any(not tool.runs_code for tool in self.tools),
            "skills": self.skills,
            "output": self.output_types or self.output_schema,
            "declared": self.channels,
            "answer_tools": self.answer_tools(),
            "several_actions": self.several_actions,
            "irreversible": any(tool.effect == "irreversible" for tool in self.tools),
        }
        yield from (name for name, value in found.items() if value)
        if self.protocol == "channels":
            yield from (f"channel:{name}" for name in _REPLY_CHANNELS)
            yield from (f"channel:{name}" for name in raw_params(self.tools))
            if self.code_tool():
                yield "channel:code"


def raw_params(tools: tuple[CatalogueTool, ...]) -> tuple[str, ...]:
    """Return the raw channels that a call of these tools can fill."""
    return tuple(name for name in RAW_PARAMS if any(name in _string_params(tool) for tool in tools))


def _string_params(tool: CatalogueTool) -> set[str]:
    try:
        schema = msgspec.json.decode(tool.params_schema, type=_ParamTypes)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return set()
    parts = {name: cast(dict[str, object], part) for name, part in schema.properties.items() if isinstance(part, dict)}
    return {name for name, part in parts.items() if part.get("type") == "string"}


class _ParamTypes(msgspec.Struct):
    properties: dict[str, object] = {}
