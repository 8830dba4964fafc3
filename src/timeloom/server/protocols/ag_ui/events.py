"""The request and event types of AG-UI 1.0."""

from typing import Literal

import msgspec


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of a message; only text is supported."""

    type: str
    text: str = ""


class Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A message of the client's history."""

    id: str
    role: Literal["developer", "system", "assistant", "user", "tool", "activity", "reasoning"]
    content: str | tuple[Part, ...] | dict[str, msgspec.Raw] | None = None
    """A text or its parts. Activities have an object, which is ignored."""


class Decision(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A person's decision; without a payload, `resolved` means approved."""

    approved: bool = True
    text: str = ""


class Resume(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Decision | None = None


class RunBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run: sends the last message to the thread's conversation, or decides its interrupts."""

    thread_id: str
    run_id: str
    messages: tuple[Message, ...] = ()
    resume: tuple[Resume, ...] | None = None
    tools: tuple[msgspec.Raw, ...] | None = None


class Said(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="type"):
    """Base class of the events."""


class Place(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The position of the run on the timeline."""

    conversation_id: str
    turn_id: str
    seq: int


class RunStarted(Said, tag="RUN_STARTED", frozen=True, kw_only=True):
    """The message is stored on the timeline."""

    thread_id: str
    run_id: str
    metadata: Place | None = None


class Interrupt(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A call that waits for approval."""

    id: str
    tool_call_id: str
    message: str
    reason: str = "approval"


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The result of a run."""

    type: Literal["success", "interrupt", "cancelled"]
    interrupts: tuple[Interrupt, ...] | msgspec.UnsetType = msgspec.UNSET
    """The waiting calls of `interrupt`; the other types have none."""


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The token usage of all model calls of the run."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    cached_input_tokens: int
    cache_write_input_tokens: int


class RunFinished(Said, tag="RUN_FINISHED", frozen=True, kw_only=True):
    """The turn ended, or waits for approval."""

    thread_id: str
    run_id: str
    outcome: Outcome
    usage: tuple[TokenUsage, ...] = ()


class RunError(Said, tag="RUN_ERROR", frozen=True, kw_only=True):
    """The turn or the stream ended without an answer."""

    message: str
    code: str


class StepStarted(Said, tag="STEP_STARTED", frozen=True, kw_only=True):
    """A round began."""

    step_name: str


class StepFinished(Said, tag="STEP_FINISHED", frozen=True, kw_only=True):
    """A round ended."""

    step_name: str


class TextStart(Said, tag="TEXT_MESSAGE_START", frozen=True, kw_only=True):
    """A text message begins."""

    message_id: str
    role: str


class TextContent(Said, tag="TEXT_MESSAGE_CONTENT", frozen=True, kw_only=True):
    """The next part of the text."""

    message_id: str
    delta: str


class TextEnd(Said, tag="TEXT_MESSAGE_END", frozen=True, kw_only=True):
    """The text message is complete."""

    message_id: str


class ReasoningStart(Said, tag="REASONING_START", frozen=True, kw_only=True):
    """The model begins to think."""

    message_id: str


class ReasoningMessageStart(Said, tag="REASONING_MESSAGE_START", frozen=True, kw_only=True):
    """A reasoning message begins."""

    message_id: str
    role: str


class ReasoningContent(Said, tag="REASONING_MESSAGE_CONTENT", frozen=True, kw_only=True):
    """The next part of the reasoning."""

    message_id: str
    delta: str


class ReasoningMessageEnd(Said, tag="REASONING_MESSAGE_END", frozen=True, kw_only=True):
    """The reasoning message is complete."""

    message_id: str


class ReasoningEnd(Said, tag="REASONING_END", frozen=True, kw_only=True):
    """The model has finished thinking."""

    message_id: str


class ToolStart(Said, tag="TOOL_CALL_START", frozen=True, kw_only=True):
    """A tool is called."""

    tool_call_id: str
    tool_call_name: str


class ToolArgs(Said, tag="TOOL_CALL_ARGS", frozen=True, kw_only=True):
    """The parameters of the call as JSON."""

    tool_call_id: str
    delta: str


class ToolEnd(Said, tag="TOOL_CALL_END", frozen=True, kw_only=True):
    """The call is complete."""

    tool_call_id: str


class ToolResult(Said, tag="TOOL_CALL_RESULT", frozen=True, kw_only=True):
    """The result of the call."""

    message_id: str
    tool_call_id: str
    content: str
    role: str


class Custom(Said, tag="CUSTOM", frozen=True, kw_only=True):
    """A timeloom event that AG-UI does not define."""

    name: str
    value: object


def framed(event: Said) -> bytes:
    """Return the event as a server-sent event."""
    return b"data: %s\n\n" % msgspec.json.encode(event)
