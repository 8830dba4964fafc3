"""AG-UI: what a run is asked with and what it tells, in the names of the protocol's version 1.0."""

from typing import Literal

import msgspec


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of a message; only text is taken."""

    type: str
    text: str = ""


class Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A message as the client has it."""

    id: str
    role: Literal["developer", "system", "assistant", "user", "tool", "activity", "reasoning"]
    content: str | tuple[Part, ...] | dict[str, msgspec.Raw] | None = None
    """A text or its parts; an object in an activity, which is not looked at."""


class Decision(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What came of asking a person; without a payload, resolved is yes."""

    approved: bool = True
    text: str = ""


class Resume(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Decision | None = None


class RunBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run: the last message is said to the thread's conversation, or what it waits for is decided."""

    thread_id: str
    run_id: str
    messages: tuple[Message, ...] = ()
    resume: tuple[Resume, ...] | None = None
    tools: tuple[msgspec.Raw, ...] | None = None


class Said(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="type"):
    """An event."""


class Place(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the run is on a timeline."""

    conversation_id: str
    turn_id: str
    seq: int


class RunStarted(Said, tag="RUN_STARTED", frozen=True, kw_only=True):
    """The message is on the timeline."""

    thread_id: str
    run_id: str
    metadata: Place | None = None


class Interrupt(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A call that waits for a person."""

    id: str
    tool_call_id: str
    message: str
    reason: str = "approval"


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How a run ended."""

    type: Literal["success", "interrupt", "cancelled"]
    interrupts: tuple[Interrupt, ...] | msgspec.UnsetType = msgspec.UNSET
    """Of `interrupt`, what waits; the others have none."""


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What all model calls of the run used together."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    cached_input_tokens: int
    cache_write_input_tokens: int


class RunFinished(Said, tag="RUN_FINISHED", frozen=True, kw_only=True):
    """The turn ended, or waits for a person."""

    thread_id: str
    run_id: str
    outcome: Outcome
    usage: tuple[TokenUsage, ...] = ()


class RunError(Said, tag="RUN_ERROR", frozen=True, kw_only=True):
    """The turn ended without an answer, or this stream did."""

    message: str
    code: str


class StepStarted(Said, tag="STEP_STARTED", frozen=True, kw_only=True):
    """A round began."""

    step_name: str


class StepFinished(Said, tag="STEP_FINISHED", frozen=True, kw_only=True):
    """A round is over."""

    step_name: str


class TextStart(Said, tag="TEXT_MESSAGE_START", frozen=True, kw_only=True):
    """The agent begins to say something."""

    message_id: str
    role: str


class TextContent(Said, tag="TEXT_MESSAGE_CONTENT", frozen=True, kw_only=True):
    """The next piece of it."""

    message_id: str
    delta: str


class TextEnd(Said, tag="TEXT_MESSAGE_END", frozen=True, kw_only=True):
    """It is said."""

    message_id: str


class ReasoningStart(Said, tag="REASONING_START", frozen=True, kw_only=True):
    """The model begins to think."""

    message_id: str


class ReasoningMessageStart(Said, tag="REASONING_MESSAGE_START", frozen=True, kw_only=True):
    """Its thoughts begin."""

    message_id: str
    role: str


class ReasoningContent(Said, tag="REASONING_MESSAGE_CONTENT", frozen=True, kw_only=True):
    """The next piece of them."""

    message_id: str
    delta: str


class ReasoningMessageEnd(Said, tag="REASONING_MESSAGE_END", frozen=True, kw_only=True):
    """They end."""

    message_id: str


class ReasoningEnd(Said, tag="REASONING_END", frozen=True, kw_only=True):
    """The model has thought."""

    message_id: str


class ToolStart(Said, tag="TOOL_CALL_START", frozen=True, kw_only=True):
    """A tool is called."""

    tool_call_id: str
    tool_call_name: str


class ToolArgs(Said, tag="TOOL_CALL_ARGS", frozen=True, kw_only=True):
    """Its parameters as JSON."""

    tool_call_id: str
    delta: str


class ToolEnd(Said, tag="TOOL_CALL_END", frozen=True, kw_only=True):
    """The call is said in full."""

    tool_call_id: str


class ToolResult(Said, tag="TOOL_CALL_RESULT", frozen=True, kw_only=True):
    """What came of the call."""

    message_id: str
    tool_call_id: str
    content: str
    role: str


class Custom(Said, tag="CUSTOM", frozen=True, kw_only=True):
    """An event of ours that the protocol has no name for."""

    name: str
    value: object


def framed(event: Said) -> bytes:
    """The event as it is sent."""
    return b"data: %s\n\n" % msgspec.json.encode(event)
