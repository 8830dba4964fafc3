"""The events that readers of a conversation receive, and the events derived from stored blocks."""

from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar, Final, Literal

import msgspec

from timeloom.core.blocks import (
    ApprovalRequested,
    ModelCalled,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    ToolCall,
    TurnEnded,
    TurnStarted,
)
from timeloom.core.blocks.turn import EndReason
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.paths import PathError, rewrite_path
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.core.timeline import Entry
from timeloom.core.view.aliases import expand_aliases
from timeloom.core.view.progress import ProgressView, pending_approvals
from timeloom.core.view.views import Views
from timeloom.runtime.context.fit_window import CompactionEvent
from timeloom.tools.mime import UNKNOWN_MIME, guess_mime
from timeloom.wire.block_schema import BlockRaw

ConversationState = Literal["idle", "running", "waiting", "interrupted"]
"""The state of a conversation: no turn, a running turn, a turn that waits for a person, or one that no process runs.

A requested compaction counts as a turn until its outcome is recorded.
"""


class ChatStart(msgspec.Struct, frozen=True, kw_only=True):
    """A turn began."""

    name: ClassVar[str] = "chat.start"
    turn_id: TurnId
    seq: int
    n: int


class ChatStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step of the turn began, or a tool call finished."""

    name: ClassVar[str] = "chat.step"
    step: Literal["round", "model", "tool", "result"]
    turn_id: TurnId
    seq: int
    round: int = 0
    seen: int = 0
    """For `model`: all entries up to this seq are in the prompt, so a sender knows that its message was seen."""
    tool_id: str = ""
    tool_call_id: str = ""


class ChatDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of streamed text. It is provisional: the stored block contains the whole text. Each reader receives the
    text from its beginning."""

    name: ClassVar[str] = "chat.delta"
    turn_id: TurnId
    channel: str
    index: int
    text: str
    cut: bool = False
    """Whether the beginning of the text is missing, because the reader joined late."""
    path: str = ""
    """The file whose text this is, if the model wrote its path before the text."""
    mime: str = ""
    """The type of that file."""


class ChatBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A stored block."""

    name: ClassVar[str] = "chat.block"
    seq: int
    block: BlockRaw


class ChatCompaction(msgspec.Struct, frozen=True, kw_only=True):
    """A compaction of older parts of the conversation started or finished."""

    name: ClassVar[str] = "chat.compaction"
    status: Literal["started", "completed", "skipped"]
    before_tokens: int
    after_tokens: int = 0


class ChatApproval(msgspec.Struct, frozen=True, kw_only=True):
    """A person has to decide before the turn can continue."""

    name: ClassVar[str] = "chat.approval"
    turn_id: TurnId
    seq: int
    tool_call_id: CallId
    tool_id: str
    text: str
    policy: str = ""


class ChatComplete(msgspec.Struct, frozen=True, kw_only=True):
    """A turn ended."""

    name: ClassVar[str] = "chat.complete"
    turn_id: TurnId
    seq: int
    reason: EndReason


class ChatError(msgspec.Struct, frozen=True, kw_only=True):
    """The turn or this stream stopped; the code is one of `core/codes.py`."""

    name: ClassVar[str] = "chat.error"
    code: str
    message: str


DELETED: Final = ChatError(code="conversation_unknown", message="the conversation was deleted")


class PendingApproval(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a person's decision, and the question."""

    tool_call_id: CallId
    tool_id: str
    text: str


class ConvStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of the conversation."""

    name: ClassVar[str] = "conv.status"
    conversation_id: ConversationId
    state: ConversationState
    tail: int
    """The last stored entry. A client that compares two statuses takes the one with the higher tail."""
    turn_id: str = ""
    round: int = 0
    unseen: tuple[int, ...] = ()
    """The seqs of messages to the turn that are not in any prompt yet."""
    approvals: tuple[PendingApproval, ...] = ()
    """The calls that wait for a person's decision."""


class Heartbeat(msgspec.Struct, frozen=True):
    """Sent when nothing happened for a while, to keep the connection open."""

    name: ClassVar[str] = ""


Event = (
    ChatStart
    | ChatStep
    | ChatDelta
    | ChatBlock
    | ChatCompaction
    | ChatApproval
    | ChatComplete
    | ChatError
    | ConvStatus
    | Heartbeat
)


def to_status(conversation: ConversationId, views: Views, stored_tail: int) -> ConvStatus:
    """Return the status according to the views, which may contain entries after the last stored one."""
    progress = views.progress
    is_compacting = bool(views.compactions.pending)
    return ConvStatus(
        conversation_id=conversation,
        state="running" if is_compacting and not progress.running else to_state(progress, is_run=True),
        tail=stored_tail,
        turn_id=progress.turn_id,
        round=progress.round,
        unseen=tuple(progress.unseen) if progress.running else (),
        approvals=tuple(
            PendingApproval(tool_call_id=one.call_id, tool_id=one.tool_id, text=one.question)
            for one in pending_approvals(progress)
        ),
    )


def to_state(progress: ProgressView, *, is_run: bool) -> ConversationState:
    """Return the state of the newest turn; `is_run` is whether some process runs it if it is open."""
    if not progress.running:
        return "idle"
    if pending_approvals(progress):
        return "waiting"
    return "running" if is_run else "interrupted"


def as_interrupted(status: ConvStatus) -> ConvStatus:
    """Return the status of a turn that no process runs; a turn that waits for a person, or has ended, needs none."""
    return msgspec.structs.replace(status, state="interrupted") if status.state == "running" else status


def to_chat_delta(turn: TurnId, delta: LiveDelta, views: Views) -> ChatDelta:
    """Return the event of a piece of text that the model or a tool of that turn wrote."""
    path, mime = _find_file(_expand_aliases(delta.file, views), turn) if delta.file else ("", "")
    # Without its path, the text could not be told from the notes of the same decision.
    channel = "canvas" if delta.file and not path else delta.channel
    return ChatDelta(turn_id=turn, channel=channel, index=delta.index, text=delta.text, path=path, mime=mime)


def _expand_aliases(name: str, views: Views) -> str:
    try:
        return expand_aliases(name, views)
    except PathError:
        # The call will fail. Until then its text is shown without a path.
        return ""


@lru_cache(maxsize=64)
def _find_file(name: str, turn: TurnId) -> tuple[str, str]:
    """Return the path and the type of the file that the model names; empty if no file can have this name."""
    try:
        found = rewrite_path(name, turn)
    except PathError:
        return "", ""
    mime = guess_mime(found.relative)
    return str(found.path), "text/plain" if mime == UNKNOWN_MIME else mime


def to_compaction_event(compaction: CompactionEvent) -> ChatCompaction:
    """Return the event of a compaction."""
    return ChatCompaction(
        status=compaction.status, before_tokens=compaction.before_tokens, after_tokens=compaction.after_tokens
    )


def derive_events(entry: Entry) -> Iterator[Event]:
    """Yield the events that follow the block of that entry."""
    turn, seq = entry.turn_id, entry.seq
    match entry.block:
        case TurnStarted(n=n):
            yield ChatStart(turn_id=turn, seq=seq, n=n)
        case RoundStarted(round=number):
            yield ChatStep(step="round", turn_id=turn, seq=seq, round=number)
        case ModelCalled(purpose="decision", round=number) as call:
            yield ChatStep(step="model", turn_id=turn, seq=seq, round=number, seen=call.seen_at(seq))
        case ToolCall(tool_id=tool_id, tool_call_id=call_id):
            yield ChatStep(step="tool", turn_id=turn, seq=seq, tool_id=tool_id, tool_call_id=call_id)
        case ResultDigest(tool_call_id=call_id) | ResultStatus(tool_call_id=call_id):
            yield ChatStep(step="result", turn_id=turn, seq=seq, tool_call_id=call_id)
        case ApprovalRequested(tool_call_id=call_id, tool_id=tool_id, text=text, policy=policy):
            reason_text = text if isinstance(text, str) else ""
            yield ChatApproval(
                turn_id=turn, seq=seq, tool_call_id=call_id, tool_id=tool_id, text=reason_text, policy=policy
            )
        case TurnEnded(reason=reason):
            yield ChatComplete(turn_id=turn, seq=seq, reason=reason)
        case _:
            pass
