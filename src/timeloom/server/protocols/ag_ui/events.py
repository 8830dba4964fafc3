"""The request and event types of AG-UI 1.0."""

from typing import Any, Final, Literal

import msgspec


class AgUiContentPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of a message; only text is supported."""

    type: str
    text: str = ""


class AgUiMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A message of the client's history."""

    id: str
    role: Literal["developer", "system", "assistant", "user", "tool", "activity", "reasoning"]
    content: str | tuple[AgUiContentPart, ...] | dict[str, msgspec.Raw] | None = None
    """A text or its parts. Activities have an object, which is ignored."""


class InterruptDecision(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A person's decision; without a payload, `resolved` means approved."""

    approved: bool = True
    text: str = ""


class InterruptAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: InterruptDecision | None = None


class RunBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run: sends the last message to the thread's conversation, or decides its interrupts."""

    thread_id: str
    run_id: str
    messages: tuple[AgUiMessage, ...] = ()
    resume: tuple[InterruptAnswer, ...] | None = None
    tools: tuple[msgspec.Raw, ...] | None = None
    forwarded_props: Any = None
    """Any JSON value; in an object, `bundle` names the bundle of a new thread."""


class AgUiEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="type"):
    """Base class of the events."""


class TimelinePosition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The position of the run on the timeline."""

    conversation_id: str
    turn_id: str
    seq: int


class RunStarted(AgUiEvent, tag="RUN_STARTED", frozen=True, kw_only=True):
    """The message is stored on the timeline."""

    thread_id: str
    run_id: str
    metadata: TimelinePosition | None = None


class Interrupt(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A call that waits for approval."""

    id: str
    tool_call_id: str
    message: str
    reason: str = "approval"


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The result of a run."""

    type: Literal["success", "interrupt", "cancelled"]
    interrupts: tuple[Interrupt, ...] | msgspec.UnsetType = msgspec.UNSET
    """The waiting calls of `interrupt`; the other types have none."""


class RunTokenUsage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The token usage of all model calls of the run."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    cached_input_tokens: int
    cache_write_input_tokens: int


class RunFinished(AgUiEvent, tag="RUN_FINISHED", frozen=True, kw_only=True):
    """The turn ended, or waits for approval."""

    thread_id: str
    run_id: str
    outcome: RunOutcome
    usage: tuple[RunTokenUsage, ...] = ()


class RunError(AgUiEvent, tag="RUN_ERROR", frozen=True, kw_only=True):
    """The turn or the stream ended without an answer."""

    message: str
    code: str


class StepStarted(AgUiEvent, tag="STEP_STARTED", frozen=True, kw_only=True):
    """A round began."""

    step_name: str


class StepFinished(AgUiEvent, tag="STEP_FINISHED", frozen=True, kw_only=True):
    """A round ended."""

    step_name: str


class TextStart(AgUiEvent, tag="TEXT_MESSAGE_START", frozen=True, kw_only=True):
    """A text message begins."""

    message_id: str
    role: str


class TextContent(AgUiEvent, tag="TEXT_MESSAGE_CONTENT", frozen=True, kw_only=True):
    """The next part of the text."""

    message_id: str
    delta: str


class TextEnd(AgUiEvent, tag="TEXT_MESSAGE_END", frozen=True, kw_only=True):
    """The text message is complete."""

    message_id: str


class ReasoningStart(AgUiEvent, tag="REASONING_START", frozen=True, kw_only=True):
    """The model begins to think."""

    message_id: str


class ReasoningMessageStart(AgUiEvent, tag="REASONING_MESSAGE_START", frozen=True, kw_only=True):
    """A reasoning message begins."""

    message_id: str
    role: str


class ReasoningContent(AgUiEvent, tag="REASONING_MESSAGE_CONTENT", frozen=True, kw_only=True):
    """The next part of the reasoning."""

    message_id: str
    delta: str


class ReasoningMessageEnd(AgUiEvent, tag="REASONING_MESSAGE_END", frozen=True, kw_only=True):
    """The reasoning message is complete."""

    message_id: str


class ReasoningEnd(AgUiEvent, tag="REASONING_END", frozen=True, kw_only=True):
    """The model has finished thinking."""

    message_id: str


class ToolStart(AgUiEvent, tag="TOOL_CALL_START", frozen=True, kw_only=True):
    """A tool is called."""

    tool_call_id: str
    tool_call_name: str


class ToolArgs(AgUiEvent, tag="TOOL_CALL_ARGS", frozen=True, kw_only=True):
    """The parameters of the call as JSON."""

    tool_call_id: str
    delta: str


class ToolEnd(AgUiEvent, tag="TOOL_CALL_END", frozen=True, kw_only=True):
    """The call is complete."""

    tool_call_id: str


class ToolResult(AgUiEvent, tag="TOOL_CALL_RESULT", frozen=True, kw_only=True):
    """The result of the call."""

    message_id: str
    tool_call_id: str
    content: str
    role: str


class CustomEvent(AgUiEvent, tag="CUSTOM", frozen=True, kw_only=True):
    """A timeloom event that AG-UI does not define."""

    name: str
    value: object


AG_UI_EVENTS: Final[tuple[type[AgUiEvent], ...]] = (
    RunStarted,
    RunFinished,
    RunError,
    StepStarted,
    StepFinished,
    TextStart,
    TextContent,
    TextEnd,
    ReasoningStart,
    ReasoningMessageStart,
    ReasoningContent,
    ReasoningMessageEnd,
    ReasoningEnd,
    ToolStart,
    ToolArgs,
    ToolEnd,
    ToolResult,
    CustomEvent,
)
"""The events that a run consists of."""


def encode_event(event: AgUiEvent) -> bytes:
    """Return the event as a server-sent event."""
    return b"data: %s\n\n" % msgspec.json.encode(event)
