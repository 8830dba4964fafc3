"""The measured loop: a model that calls one trivial tool in each round, then answers."""

from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from timeloom.app import AgentSettings, build_turn_runner
from timeloom.core.blocks import ConversationStarted, ToolTraits, Usage
from timeloom.core.policy.next_step import TurnLimits
from timeloom.core.policy.pruning import PruneSettings
from timeloom.core.render.editions import THIRD_EDITION
from timeloom.core.stream.channels import DECISION
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.ports.model import FinishEvent, Model, ModelEvent, ModelRequest, TextPiece, TextSegment
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.tools.define import FunctionTool, tool
from timeloom.tools.registry import ToolRegistry

TOOL: Final = "bench.look"
WINDOW_TOKENS: Final = 100_000_000
"""So large that nothing is compacted: the benchmark measures the cost of visible content."""

PIECE_CHARS: Final = 16
HEADER: Final = ConversationStarted(tenant="bench", project="bench", user="somebody")

_THOUGHT: Final = (
    "The next place has not been looked at yet, so it comes first; the answer can wait until all are known."
)
_NOTES: Final = "I look at the next place."
_TOOL_LINE: Final = "row {0}: the place is dry, the lamp is on, nobody is there, and the door stands open to the yard\n"
PLACE: Final = "the third place behind the house"
TOOL_TEXT: Final = "".join(_TOOL_LINE.format(n) for n in range(4))
"""The text that the tool returns, about 400 characters."""

ANSWER: Final = "All places were looked at; nobody was there."


def call_text() -> str:
    """Return a reply that calls the tool."""
    decision = {
        "action": "call_tool",
        "notes": _NOTES,
        "tool_call": {"tool_id": TOOL, "params": {"place": PLACE}},
    }
    return _reply(decision)


def answer_text() -> str:
    """Return a reply that ends the turn."""
    return _reply({"action": "complete", "final_answer": ANSWER})


def look(before: Callable[[], None], after: Callable[[], None], seen: str = TOOL_TEXT) -> FunctionTool:
    """Return a tool that always returns the same text; the callbacks run when it begins and ends."""

    # A benchmark repeats one call, which would otherwise end its turn.
    @tool(TOOL, effect="pure", traits=ToolTraits(polled=True))
    async def look_at_place(place: str) -> str:
        """Look at a place.

        Args:
            place: Where to look.
        """
        before()
        result = f"{place}\n{seen}"
        after()
        return result

    return look_at_place


def make_bench_turns(
    session: Session,
    model: Model,
    looks: FunctionTool,
    data_dir: Path,
    on_delta: Callable[[LiveDelta], None] = lambda _: None,
    prune: PruneSettings | None = None,
    edition: int = THIRD_EDITION,
) -> TurnRunner:
    """Return an object that runs turns of any number of rounds with that one tool."""
    setting = AgentSettings(
        data_dir=data_dir,
        limits=TurnLimits(max_iterations=1_000_000),
        prune=prune or PruneSettings(),
        edition=edition,
    )
    return build_turn_runner(session, model, setting, on_delta, ToolRegistry([looks]))


class LoopingModel:
    """A model in this process and without delay, which calls the tool until a turn has had its rounds.

    It calls `asked` when it gets a request, `paused` when it yields an event and `resumed` after each event.
    """

    name = "bench:looping"
    window_tokens = WINDOW_TOKENS

    def __init__(
        self, rounds: int, asked: Callable[[], None], paused: Callable[[], None], resumed: Callable[[], None]
    ) -> None:
        self._rounds = rounds
        self._asked = asked
        self._paused = paused
        self._resumed = resumed
        self._replies = [
            [TextPiece(text[at : at + PIECE_CHARS]) for at in range(0, len(text), PIECE_CHARS)]
            for text in (call_text(), answer_text())
        ]
        self._round = 0
        self._last: ModelRequest | None = None

    @property
    def prompt_chars(self) -> int:
        """Length of the last request's text, without the system text."""
        segments = self._last.segments if self._last else ()
        return sum(len(segment.text) for segment in segments if isinstance(segment, TextSegment))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Stream the next reply of the turn."""
        self._asked()
        self._last = request
        self._round = self._round % self._rounds + 1
        events: list[ModelEvent] = [*self._replies[self._round == self._rounds]]
        events.append(FinishEvent("end", Usage(input_tokens=100, output_tokens=50), self.name))
        for event in events:
            self._paused()
            yield event
            self._resumed()
        self._paused()

    async def close(self) -> None:
        """Do nothing: no resource is open."""


def _reply(decision: Mapping[str, object]) -> str:
    written = msgspec.json.encode(decision).decode()
    return f"<channel:thinking>{_THOUGHT}</channel:thinking>\n<channel:{DECISION}>{written}</channel:{DECISION}>"
