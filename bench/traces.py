"""The trace: a recorded conversation in a form that every side of a comparison can replay."""

from collections.abc import Iterator
from typing import Literal

import msgspec

Kind = Literal["user", "followup", "thinking", "text", "call", "result", "summary"]


class TraceTokens(msgspec.Struct, frozen=True):
    """The billed tokens of one model request."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0


class TraceEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One recorded event; the `text` of a call is the JSON object of its parameters."""

    kind: Kind
    text: str
    ts: str
    call_id: str = ""
    tool: str = ""
    failed: bool = False
    request: str = ""
    """The model request of the event; steps of one request are one round."""

    tokens: TraceTokens = TraceTokens()


Step = tuple[TraceEvent, ...]
"""Events that become durable together: a user's message, a model's reply, the result of one call."""

Turn = tuple[Step, ...]


class Trace(msgspec.Struct, frozen=True):
    """One conversation."""

    name: str
    turns: tuple[Turn, ...]

    def steps(self) -> Iterator[Step]:
        """Yield the steps of all turns."""
        for turn in self.turns:
            yield from turn

    def payload_bytes(self) -> int:
        """Return the size of all texts of users, model and tools in bytes of UTF-8."""
        return sum(len(event.text.encode()) for step in self.steps() for event in step)


def group_by_turns(name: str, steps: list[Step]) -> Trace:
    """Return the steps as a trace whose turns begin at the user's messages."""
    turns: list[list[Step]] = []
    for step in steps:
        if step[0].kind == "user" or not turns:
            turns.append([])
        turns[-1].append(step)
    return Trace(name, tuple(tuple(turn) for turn in turns))
