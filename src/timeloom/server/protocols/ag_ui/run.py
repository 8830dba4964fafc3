"""Translates the events of a turn to AG-UI events in the order that the protocol requires."""

from collections.abc import Iterator
from typing import ClassVar, Final

import msgspec

from timeloom.core.blocks import Completion, Notes, ResultContent, ResultStatus, Thinking, ToolCall
from timeloom.core.blocks.turn import EndReason
from timeloom.core.stream.live_reply import INTERNAL
from timeloom.runtime.hub.events import (
    ChatApproval,
    ChatBlock,
    ChatCompaction,
    ChatComplete,
    ChatDelta,
    ChatError,
    ChatStep,
    ConvStatus,
    Event,
    Heartbeat,
)
from timeloom.runtime.hub.state import SendReceipt
from timeloom.server.http.sse import EventStream
from timeloom.server.protocols.ag_ui import events as ag
from timeloom.server.protocols.turn_answer import EPOCH, TurnAnswer
from timeloom.wire.block_json import decode_block

TEXT_CHANNELS: Final = frozenset({"answer", "timeline_text"})
"""Channels that contain text for the user."""

CANCEL_REASONS: Final = frozenset[EndReason]({"stopped", "cancelled"})

HIDDEN_FILE_TEXT: Final = "(an internal file)"
"""Replaces the text of a file that is hidden from the user."""

_BLOCK_TYPES: Final = frozenset(
    kind.type_name for kind in (Completion, Notes, ResultContent, ResultStatus, Thinking, ToolCall)
)


class RunStream(EventStream):
    """A streamed run."""

    schema_name: ClassVar = "RunStreamEvent"
    data_types: ClassVar = ag.AG_UI_EVENTS


class _RunBlockType(msgspec.Struct, frozen=True):
    type: str


class _ToolParams(msgspec.Struct, frozen=True):
    channel: object = None


class RunTranslator:
    """Translates a turn; each event becomes the bytes of zero or more AG-UI events."""

    def __init__(self, body: ag.RunBody, accepted: SendReceipt) -> None:
        self._thread = body.thread_id
        self._run = body.run_id
        self._accepted = accepted
        self._answer = TurnAnswer()
        self._has_started = False
        self._channel = ""
        """The channel of the open message; empty if none is open."""
        self._messages = 0
        self._streamed: set[str] = set()
        """Channels that were streamed since the last model call began."""
        self._step = ""
        self._interrupts: list[ag.Interrupt] = []

    def __call__(self, event: Event) -> bytes:
        """Return the bytes to send for the event."""
        if isinstance(event, Heartbeat):
            return b": still here\n\n"
        self._answer.add_event(event)
        started = [] if self._has_started else [self._run_started()]
        self._has_started = True
        return b"".join(ag.encode_event(one) for one in (*started, *self._translate(event)))

    def _run_started(self) -> ag.AgUiEvent:
        accepted = self._accepted
        position = ag.TimelinePosition(
            conversation_id=accepted.conversation_id, turn_id=accepted.turn_id, seq=accepted.seq
        )
        return ag.RunStarted(thread_id=self._thread, run_id=self._run, metadata=position)

    def _translate(self, event: Event) -> Iterator[ag.AgUiEvent]:
        match event:
            case ChatDelta():
                yield from self._translate_delta(event)
            case ChatBlock():
                yield from self._translate_block(event)
            case ChatStep(step="round"):
                yield from self._next_step(f"round {event.round}")
            case ChatStep(step="model"):
                yield from self._close_message()
                self._streamed.clear()
            case ChatApproval():
                interrupt = ag.Interrupt(id=event.tool_call_id, tool_call_id=event.tool_call_id, message=event.text)
                self._interrupts.append(interrupt)
            case ChatCompaction():
                yield ag.CustomEvent(name=event.name, value=event)
            case ChatComplete() | ChatError():
                yield from self._end_run()
            case ConvStatus(state="waiting"):
                yield from self._interrupt_run()
            case _:
                pass

    def _translate_delta(self, delta: ChatDelta) -> Iterator[ag.AgUiEvent]:
        if delta.path or (delta.channel not in TEXT_CHANNELS and delta.channel != "thinking"):
            yield ag.CustomEvent(name=delta.name, value=delta)
        elif delta.text:
            if self._channel != delta.channel:
                yield from self._close_message()
                yield from self._open_message(delta.channel)
            kind = ag.ReasoningContent if delta.channel == "thinking" else ag.TextContent
            yield kind(message_id=self._message_id, delta=delta.text)

    @property
    def _message_id(self) -> str:
        return f"{self._accepted.turn_id}.{self._accepted.seq}.{self._messages}"

    def _open_message(self, channel: str) -> Iterator[ag.AgUiEvent]:
        self._channel = channel
        self._messages += 1
        self._streamed.add(channel)
        if channel == "thinking":
            yield ag.ReasoningStart(message_id=self._message_id)
            yield ag.ReasoningMessageStart(message_id=self._message_id, role="reasoning")
        else:
            yield ag.TextStart(message_id=self._message_id, role="assistant")

    def _close_message(self) -> Iterator[ag.AgUiEvent]:
        channel, self._channel = self._channel, ""
        if channel == "thinking":
            yield ag.ReasoningMessageEnd(message_id=self._message_id)
            yield ag.ReasoningEnd(message_id=self._message_id)
        elif channel:
            yield ag.TextEnd(message_id=self._message_id)

    def _translate_block(self, stored: ChatBlock) -> Iterator[ag.AgUiEvent]:
        if msgspec.json.decode(stored.block, type=_RunBlockType).type not in _BLOCK_TYPES:
            return
        match decode_block(bytes(stored.block), EPOCH).block:
            case Thinking(text=str(text)):
                yield from self._complete_message("thinking", text)
            case Notes(text=str(text)):
                yield from self._complete_message("timeline_text", text)
            case Completion(text=str(text)):
                yield from self._complete_message("answer", text)
            case ToolCall(tool_call_id=call_id, tool_id=tool_id, params=params):
                yield from self._close_message()
                yield ag.ToolStart(tool_call_id=call_id, tool_call_name=tool_id)
                yield ag.ToolArgs(
                    tool_call_id=call_id, delta=_visible_args(params) if isinstance(params, str) else "{}"
                )
                yield ag.ToolEnd(tool_call_id=call_id)
            case ResultStatus(tool_call_id=call_id, text=str(text)):
                yield self._tool_result(call_id, stored.seq, text)
            case ResultContent(tool_call_id=call_id, text=str(text)) as content:
                yield self._tool_result(call_id, stored.seq, HIDDEN_FILE_TEXT if _is_internal_file(content) else text)
            case _:
                pass

    def _tool_result(self, call_id: str, seq: int, text: str) -> ag.AgUiEvent:
        message_id = f"{self._accepted.turn_id}.{seq}"
        return ag.ToolResult(message_id=message_id, tool_call_id=call_id, content=text, role="tool")

    def _complete_message(self, channel: str, text: str) -> Iterator[ag.AgUiEvent]:
        """End the message of a stored text; send the whole text first if it was not streamed."""
        if channel not in self._streamed and text:
            yield from self._close_message()
            yield from self._open_message(channel)
            kind = ag.ReasoningContent if channel == "thinking" else ag.TextContent
            yield kind(message_id=self._message_id, delta=text)
        if self._channel == channel:
            yield from self._close_message()
        self._streamed.discard(channel)

    def _next_step(self, name: str) -> Iterator[ag.AgUiEvent]:
        yield from self._close_message()
        if self._step:
            yield ag.StepFinished(step_name=self._step)
        self._step = name
        if name:
            yield ag.StepStarted(step_name=name)

    def _interrupt_run(self) -> Iterator[ag.AgUiEvent]:
        yield from self._next_step("")
        yield self._run_finished(ag.RunOutcome(type="interrupt", interrupts=tuple(self._interrupts)))

    def _end_run(self) -> Iterator[ag.AgUiEvent]:
        yield from self._next_step("")
        answer = self._answer
        if answer.error:
            yield ag.RunError(message=answer.error.message, code=answer.error.code)
        elif answer.reason in CANCEL_REASONS:
            yield self._run_finished(ag.RunOutcome(type="cancelled"))
        elif not answer.parts:
            yield ag.RunError(message=answer.end_text or "the turn ended without an answer", code=answer.reason or "")
        else:
            yield self._run_finished(ag.RunOutcome(type="success"))

    def _run_finished(self, outcome: ag.RunOutcome) -> ag.AgUiEvent:
        totals = self._answer.usage
        prompt = totals.input_tokens + totals.cache_read_tokens + totals.cache_write_tokens
        usage = ag.RunTokenUsage(
            input_tokens=prompt,
            output_tokens=totals.output_tokens,
            total_tokens=prompt + totals.output_tokens,
            cached_input_tokens=totals.cache_read_tokens,
            cache_write_input_tokens=totals.cache_write_tokens,
        )
        return ag.RunFinished(thread_id=self._thread, run_id=self._run, outcome=outcome, usage=(usage,))


def _visible_args(params: str) -> str:
    """Return the parameters without the text of a file that is hidden from the user."""
    if msgspec.json.decode(params, type=_ToolParams).channel != INTERNAL:
        return params
    visible = msgspec.json.decode(params, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({name: value for name, value in visible.items() if name != "content"}).decode()


def _is_internal_file(content: ResultContent) -> bool:
    is_file, digest = content.artifact_path.startswith("fi:"), content.digest
    return is_file and digest is not None and digest.visibility == INTERNAL
