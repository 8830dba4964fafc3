"""Blocks of one round: its start, the model call and its outcome, thinking and notes."""

from typing import ClassVar, Literal

import msgspec

from timeloom.core.blocks.block import Block, need_call, need_count, need_positive, need_text
from timeloom.core.blocks.caching import CacheForecast
from timeloom.core.ids import CallId, TurnId
from timeloom.core.payload import Text

CallPurpose = Literal["decision", "compaction", "title"]
"""Purpose of a model call; spend and scripts are counted per purpose."""

ReplyProtocol = Literal["channels", "native"]
"""How a model states its decision: as text in channels, or through its provider's native tool calling."""


class Usage(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Tokens and cost of a model call, as reported by its provider; `cost_nano_usd` is in billionths of a dollar."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    """The part of `cache_write_tokens` that the provider keeps for an hour."""
    output_tokens: int = 0
    cost_nano_usd: int = 0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            need_count(getattr(self, name), name)


class RoundStarted(Block, tag="react.round.start", frozen=True, kw_only=True):
    """Start of a round; external events after it belong to this round."""

    type_name: ClassVar[str] = "react.round.start"
    round: int
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_positive(self.round, "round")


class ModelCalled(Block, tag="react.model.call", frozen=True, kw_only=True):
    """A request about to be sent: its hash, and the parts that cannot be rendered again from the log."""

    type_name: ClassVar[str] = "react.model.call"
    repeated: ClassVar[tuple[str, ...]] = ("system", "tools")
    round: int
    model: str
    request_sha256: str
    purpose: CallPurpose = "decision"
    attempt: int = 1
    system: Text = ""
    tail: Text = ""
    estimated_tokens: int = 0
    """Our estimate for the whole request; 0 if it was not estimated."""
    rendering: int = 1
    """Version of the rendering code; another version may produce different bytes."""
    seen: int = 0
    """The last entry that the request contains; 0 if it was not recorded, or for a side call."""
    cache: CacheForecast | None = None
    """Cache points and the expected cache use; None if caching was not planned."""
    sections: str = ""
    """The sections of the system text with their versions, such as `agent.1 reply.1`; none for edition 1.

    The assistant's own instructions follow by their digest: `own.9f86d081884c7d65`."""
    protocol: ReplyProtocol = "channels"
    """How the model was asked to state its decision."""
    tools: Text = ""
    """The functions of native tool calling, as JSON; empty with channels."""
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_positive(self.round, "round")
        need_positive(self.attempt, "attempt")
        need_text(self.model, "model")
        need_text(self.request_sha256, "request_sha256")
        need_count(self.estimated_tokens, "estimated_tokens")
        need_positive(self.rendering, "rendering")
        need_count(self.seen, "seen")

    def seen_at(self, seq: int) -> int:
        """Return the last entry that the request contains, if this call is the entry at that seq.

        A call without the recorded number counts as one whose request contained all entries before it.
        """
        return min(self.seen or seq - 1, seq - 1)

    def path(self, turn: TurnId) -> str:
        return f"ar:{turn}.react.model.{self.round}"


class ModelAnswered(Block, tag="react.model.outcome", frozen=True, kw_only=True):
    """How a request ended: usage and stop reason, and the partial text if it was cut or failed."""

    type_name: ClassVar[str] = "react.model.outcome"
    round: int
    model: str
    stop_reason: str
    purpose: CallPurpose = "decision"
    attempt: int = 1
    usage: Usage = Usage()
    usage_reported: bool = True
    """Whether the provider reported usage; if not, `usage` is empty and the cost unknown."""
    priced: bool = True
    """Whether the model's price is known; if not, the cost is 0."""
    interrupted: bool = False
    text: Text = ""
    error: str = ""
    detail: str = ""
    """Details of the error, from the provider or from timeloom."""
    repairs: tuple[str, ...] = ()
    """Names of the repairs that made the reply readable; empty if it was read as it stands."""
    repaired: Text = ""
    """The repaired reply, which is executed in place of `text`."""
    protocol: ReplyProtocol = "channels"
    """How the reply states the decision."""
    tool_calls: Text = ""
    """The native tool calls of the reply, as JSON; empty if there are none."""
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_positive(self.round, "round")
        need_positive(self.attempt, "attempt")
        need_text(self.model, "model")

    def path(self, turn: TurnId) -> str:
        return f"ar:{turn}.react.model.{self.round}"


class Thinking(Block, tag="react.thinking", frozen=True, kw_only=True):
    """The model's thinking in a round."""

    type_name: ClassVar[str] = "react.thinking"
    round: int
    text: Text

    def __post_init__(self) -> None:
        need_positive(self.round, "round")

    def path(self, turn: TurnId) -> str:
        return f"ar:{turn}.react.thinking.{self.round}"


class Notes(Block, tag="react.notes", frozen=True, kw_only=True):
    """The agent's message to the user before a call."""

    type_name: ClassVar[str] = "react.notes"
    channel: ClassVar[str] = "timeline_text"
    tool_call_id: CallId
    text: Text

    def __post_init__(self) -> None:
        need_call(self.tool_call_id)
        need_text(self.text, "text")

    def path(self, turn: TurnId) -> str:
        return f"ar:{turn}.react.notes.{self.tool_call_id}"


class Note(Block, tag="react.note", frozen=True, kw_only=True):
    """A short internal note that agents see and users do not."""

    type_name: ClassVar[str] = "react.note"
    channel: ClassVar[str] = "internal"
    tool_call_id: CallId
    text: Text

    def __post_init__(self) -> None:
        need_call(self.tool_call_id)
        need_text(self.text, "text")

    def path(self, turn: TurnId) -> str:
        return f"ar:{turn}.react.note.{self.tool_call_id}"
