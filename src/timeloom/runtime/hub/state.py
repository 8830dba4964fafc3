"""The states of a live conversation and the pure transitions between them.

A live conversation takes its inputs from one queue, one at a time. `transition` maps the current state and an input to
the next state and the effects that the shell carries out in order. The shell reports results back as inputs.
"""

from collections.abc import Sequence
from typing import Final, Literal, assert_never

import msgspec

from timeloom.core.blocks import AnyBlock, ConversationStarted
from timeloom.core.ids import CallId, ConversationId, MessageId, TurnId
from timeloom.runtime.hub.events import ChatError
from timeloom.runtime.turn.attachments import IncomingFile

USER = "user"
"""The author of messages by the conversation's owner."""

COMPACT_EVENT: Final = "compact"
"""The kind of the event that requests a compaction; its text is the focus."""

SendStatus = Literal[
    "started", "followup", "steered", "told", "cancelled", "decided", "queued", "compacting", "compacted"
]
"""How a message or event was handled: it opened a turn, or it was added to the running one.

A requested compaction is queued for the next round of the running turn, carried out now, or was carried out before.
"""


class SendReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of a message or event that is on the timeline."""

    conversation_id: ConversationId
    turn_id: TurnId
    seq: int
    status: SendStatus

    @property
    def before_seq(self) -> int:
        """The seq of the last entry before it; if it opened a turn, before that turn's first entry."""
        return self.seq - (2 if self.status == "started" else 1)


class IncomingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message or an event of some kind that was sent to a conversation."""

    kind: str = "followup"
    text: str = ""
    by: str = "external"
    author: str = USER
    """The author of a message."""
    mime: str = "text/markdown"
    started_ts: str = ""
    """When it began, according to the sender; empty means now."""
    files: tuple[IncomingFile, ...] = ()
    quoted_roles: tuple[str, ...] = ()
    """Roles of the messages that a message quotes from a client's history, except those of the user."""
    output: str = ""
    """The JSON schema of the answer of the turn that the message opens; empty for that of the settings."""
    form: str = ""
    """For an answer to a form: the id of the call that asked; `text` is then the JSON object of the values."""
    keep: int = 0
    """For a compaction: the number of newest rounds that stay; 0 means the default."""
    request_id: MessageId | None = None
    """For a compaction: the id that the sender gave it, so that sending it twice is safe."""


# States


class ReleasedState(msgspec.Struct, frozen=True):
    """Not open in this process; another process may hold the conversation."""


class IdleState(msgspec.Struct, frozen=True):
    """Open, and no turn runs; the idle timer releases it."""


class RunningState(msgspec.Struct, frozen=True):
    """Open, and a task runs the current turn."""

    task_no: int
    """Tells this task from earlier ones, whose reports may arrive late."""


class FailedState(msgspec.Struct, frozen=True):
    """Open, but the turn stopped at an error; the next request reopens the conversation from the store."""


class SettlingState(msgspec.Struct, frozen=True):
    """Open and idle for long enough; released once a missing title is generated."""

    settle_no: int


class ClosedState(msgspec.Struct, frozen=True):
    """Not open, and accepts no requests any more."""

    error: ChatError


State = ReleasedState | IdleState | RunningState | FailedState | SettlingState | ClosedState


# Inputs: requests, which have a reply, and reports


class CreateRequest(msgspec.Struct, frozen=True):
    """Create the conversation, with its first message if there is one."""

    header: ConversationStarted
    message: IncomingMessage | None = None


class DeliverRequest(msgspec.Struct, frozen=True):
    """Handle a message, a steer, a cancellation or another event."""

    message: IncomingMessage


class DecideRequest(msgspec.Struct, frozen=True):
    """Record a person's decision on a requested approval."""

    call_id: CallId
    approved: bool
    by: str
    text: str


class AppendRequest(msgspec.Struct, frozen=True):
    """Append blocks that need no turn."""

    blocks: Sequence[AnyBlock]
    turn_id: TurnId


class PinRequest(msgspec.Struct, frozen=True):
    """Pin the blocks at the path, or end their pin."""

    path: str
    pinned: bool
    author: str


class ResumeRequest(msgspec.Struct, frozen=True):
    """Resume an open turn."""


class ReleaseRequest(msgspec.Struct, frozen=True):
    """Release the conversation, and take no further input until the caller has finished with it."""

    stops_turn: bool


class CloseRequest(msgspec.Struct, frozen=True):
    """Release the conversation and refuse everything after this."""

    error: ChatError


class TurnOpened(msgspec.Struct, frozen=True):
    """The timeline has an open turn; `has_task` tells whether a task runs it."""

    has_task: bool
    task_no: int
    """The number for a new task; no two tasks of a conversation have the same."""


class TurnStopped(msgspec.Struct, frozen=True):
    """The task of a turn finished: the turn ended, waits for a person, or failed."""

    task_no: int
    error: ChatError | None = None


class IdleTimeout(msgspec.Struct, frozen=True):
    """The idle timer fired."""

    settle_no: int
    """The number for a wait that follows; no two waits of a conversation have the same."""


class TitleSettled(msgspec.Struct, frozen=True):
    """No title is missing any more, or none can be had."""

    settle_no: int


class LeaseLost(msgspec.Struct, frozen=True):
    """Another process took the conversation over, or its stored state is no longer the one in memory."""

    error: ChatError | None = None
    task_no: int | None = None
    """The turn task that found out; the report of an earlier task does not release a reopened conversation."""


Request = CreateRequest | DeliverRequest | DecideRequest | AppendRequest | PinRequest | ResumeRequest
Report = TurnOpened | TurnStopped | IdleTimeout | TitleSettled | LeaseLost
Input = Request | ReleaseRequest | CloseRequest | Report


# Effects


class OpenSession(msgspec.Struct, frozen=True):
    """Open the conversation, as a new one if there is a header."""

    header: ConversationStarted | None = None


class HandleRequest(msgspec.Struct, frozen=True):
    """Carry out the request on the open session and reply to its sender."""

    request: Request


class StartTurnTask(msgspec.Struct, frozen=True):
    """Start the task that runs the open turn."""

    task_no: int


class ResumeOpenWork(msgspec.Struct, frozen=True):
    """Start a task for a turn or a requested compaction that the last task did not see before it ended."""


class ArmIdleTimer(msgspec.Struct, frozen=True):
    """Start the idle timer anew."""


class SettleTitle(msgspec.Struct, frozen=True):
    """Generate a missing title in the background, then report `TitleSettled`."""

    settle_no: int


class ReleaseSession(msgspec.Struct, frozen=True):
    """Stop a running turn, which stays open on the timeline, and release the lease."""


class PublishError(msgspec.Struct, frozen=True):
    """Send the error to all readers."""

    error: ChatError


class PublishStatus(msgspec.Struct, frozen=True):
    """Send the current status to all readers."""


class PauseQueue(msgspec.Struct, frozen=True):
    """Reply to the sender and take no further input until the sender has finished."""


class RejectRequest(msgspec.Struct, frozen=True):
    """Reply with an error."""

    code: str
    message: str


Effect = (
    OpenSession
    | HandleRequest
    | StartTurnTask
    | ResumeOpenWork
    | ArmIdleTimer
    | SettleTitle
    | ReleaseSession
    | PublishError
    | PublishStatus
    | PauseQueue
    | RejectRequest
)
Transition = tuple[State, tuple[Effect, ...]]


def transition(state: State, given: Input) -> Transition:
    """Return the state after the input, and the effects to carry out in order."""
    if isinstance(state, ClosedState):
        return state, _refuse(state, given)
    match given:
        case CreateRequest() | DeliverRequest() | DecideRequest() | AppendRequest() | PinRequest() | ResumeRequest():
            return _on_request(state, given)
        case ReleaseRequest():
            return _on_release(state, given)
        case CloseRequest(error=error):
            return ClosedState(error), _release(state)
        case LeaseLost():
            return _on_lease_lost(state, given)
        case TurnOpened():
            return _on_turn_opened(state, given)
        case TurnStopped():
            return _on_turn_stopped(state, given)
        case IdleTimeout(settle_no=settle_no):
            return _on_idle_timeout(state, settle_no)
        case TitleSettled():
            return _on_title_settled(state, given)
        case _:
            assert_never(given)


def _on_request(state: State, request: Request) -> Transition:
    handle = HandleRequest(request)
    match state:
        case ReleasedState():
            header = request.header if isinstance(request, CreateRequest) else None
            return IdleState(), (OpenSession(header), ArmIdleTimer(), handle)
        case FailedState():
            return IdleState(), (ReleaseSession(), OpenSession(), ArmIdleTimer(), handle)
        case RunningState():
            return state, (ArmIdleTimer(), handle)
        case _:
            return IdleState(), (ArmIdleTimer(), handle)


def _on_turn_opened(state: State, opened: TurnOpened) -> Transition:
    # A task that still runs sees the new entries before it ends; one that has ended is replaced.
    if isinstance(state, IdleState) or (isinstance(state, RunningState) and not opened.has_task):
        return RunningState(opened.task_no), (StartTurnTask(opened.task_no),)
    return state, ()


def _on_idle_timeout(state: State, settle_no: int) -> Transition:
    match state:
        case IdleState():
            return SettlingState(settle_no), (SettleTitle(settle_no),)
        case FailedState():
            return ReleasedState(), (ReleaseSession(),)
        case _:
            return state, ()


def _on_release(state: State, request: ReleaseRequest) -> Transition:
    if isinstance(state, RunningState) and not request.stops_turn:
        return state, (
            RejectRequest("turn_open", "a turn or a compaction is running; wait for its end, or stop it first"),
        )
    return ReleasedState(), (*_release(state), PauseQueue())


def _on_lease_lost(state: State, lost: LeaseLost) -> Transition:
    if lost.task_no is not None and state != RunningState(lost.task_no):
        return state, _publish(lost.error)
    return ReleasedState(), (*_release(state), *_publish(lost.error))


def _on_turn_stopped(state: State, stopped: TurnStopped) -> Transition:
    if state != RunningState(stopped.task_no):
        return state, _publish(stopped.error)
    if stopped.error:
        return FailedState(), (PublishError(stopped.error), PublishStatus(), ArmIdleTimer())
    return IdleState(), (ArmIdleTimer(), ResumeOpenWork())


def _on_title_settled(state: State, settled: TitleSettled) -> Transition:
    return (ReleasedState(), _release(state)) if state == SettlingState(settled.settle_no) else (state, ())


def _refuse(state: ClosedState, given: Input) -> tuple[Effect, ...]:
    return () if isinstance(given, Report | CloseRequest) else (RejectRequest(state.error.code, state.error.message),)


def _publish(error: ChatError | None) -> tuple[Effect, ...]:
    return (PublishError(error),) if error else ()


def _release(state: State) -> tuple[Effect, ...]:
    return () if isinstance(state, ReleasedState) else (ReleaseSession(),)
