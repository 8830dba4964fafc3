"""The agent of a trace as every side gets it: its instructions, its tools and their results."""

import random
from collections.abc import Sequence

import msgspec

from bench.context.asks import TraceRequest
from bench.context.counting import TokenCounter
from bench.synthetic import prose

_DESCRIPTION = "A tool of the recorded agent, which returns what it returned then."


class RecordedTool(msgspec.Struct, frozen=True):
    """A tool by its recorded name, with a JSON Schema of the parameters that were used."""

    name: str
    description: str
    params_schema: str


class RecordedAgent(msgspec.Struct, frozen=True):
    """The instructions and tools of an agent."""

    instructions: str
    tools: tuple[RecordedTool, ...]


def to_agent(asks: Sequence[TraceRequest], counter: TokenCounter) -> RecordedAgent:
    """Return the agent of these requests, with synthetic instructions of the recorded length."""
    tools = tuple(_tool(name, asks) for name in sorted({call.tool for ask in asks for call in ask.calls}))
    for_tools = sum(counter.tokens(tool.description + tool.params_schema) for tool in tools)
    return RecordedAgent(_instructions(max(1, counter.own_tokens - for_tools), counter), tools)


def _tool(name: str, asks: Sequence[TraceRequest]) -> RecordedTool:
    names: dict[str, None] = {}
    for ask in asks:
        for call in ask.calls:
            if call.tool == name:
                names.update(dict.fromkeys(msgspec.json.decode(call.params, type=dict[str, msgspec.Raw])))
    properties: dict[str, dict[str, str]] = {name: {} for name in names}
    schema = {"type": "object", "properties": properties}
    return RecordedTool(name, _DESCRIPTION, msgspec.json.encode(schema).decode())


def _instructions(tokens: int, counter: TokenCounter) -> str:
    chance = random.Random(5)
    sample = prose(chance, 4_000)
    chars = round(len(sample) * tokens / max(1, counter.tokens(sample)))
    return prose(chance, max(1, chars))
