"""Translates the events of a turn to AG-UI events in the order that the protocol requires."""

from collections.abc import Iterator
from typing import Final

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
from timeloom.runtime.hub.live_conversation import Accepted
from timeloom.server.protocols.ag_ui import events as ag
from timeloom.server.protocols.turn_answer import EPOCH, Answer
from timeloom.wire.block_json import decode_block

TEXTS: Final = frozenset({"answer", "timeline_text"})
"""Channels that contain text for the user."""

CANCELLED: Final = frozenset[EndReason]({"stopped", "cancelled"})

KEPT: Final = "(an internal file)"
"""Replaces the text of a file that is hidden from the user."""

_WANTED: Final = frozenset(
    kind.type_name for kind in (Completion, Notes, ResultContent, ResultStatus, Thinking, ToolCall)
)


class _Kind(msgspec.Struct, frozen=True):
    type: str


class _Params(msgspec.Struct, frozen=True):
    channel: object = None


class Run:
    """Translates a turn; each event becomes the bytes of zero or more AG-UI events."""

    def __init__(self, body: ag.RunBody, accepted: Accepted) -> None:
        self._thread = body.thread_id
        self._run = body.run_id
        self._accepted = accepted
        self._answer = Answer()
        self._has_begun = False
        self._channel = ""
        """The channel of the open message; empty if none is open."""
        self._messages = 0
        self._told: set[str] = set()
        """Channels that were streamed since the last model call began."""
        self._step = ""
        self._interrupts: list[ag.Interrupt] = []

    def __call__(self, event: Event) -> bytes:
        """Return the bytes to send for the event."""
        if isinstance(event, Heartbeat):
            return b": still here\n\n"
        self._answer.hear(event)
        said = [] if self._has_begun else [self._started()]
        self._has_begun = True
        return b"".join(ag.framed(one) for one in (*said, *self._retold(event)))

    def _started(self) -> ag.Said:
        accepted = self._accepted
        where = ag.Place(conversation_id=accepted.conversation_id, turn_id=accepted.turn_id, seq=accepted.seq)
        return ag.RunStarted(thread_id=self._thread, run_id=self._run, metadata=where)

    def _retold(self, event: Event) -> Iterator[ag.Said]:
        match event:
            case ChatDelta():
                yield from self._delta(event)
            case ChatBlock():
                yield from self._block(event)
            case ChatStep(step="round"):
                yield from self._next_step(f"round {event.round}")
            case ChatStep(step="model"):
                yield from self._closed()
                self._told.clear()
            case ChatApproval():
                asked = ag.Interrupt(id=event.tool_call_id, tool_call_id=event.tool_call_id, message=event.text)
                self._interrupts.append(asked)
            case ChatCompaction():
                yield ag.Custom(name=event.name, value=event)
            case ChatComplete() | ChatError():
                yield from self._ended()
            case ConvStatus(state="waiting"):
                yield from self._waits()
            case _:
                pass

    def _delta(self, delta: ChatDelta) -> Iterator[ag.Said]:
        if delta.channel not in TEXTS and delta.channel != "thinking":
            yield ag.Custom(name=delta.name, value=delta)
        elif delta.text:
            if self._channel != delta.channel:
                yield from self._closed()
                yield from self._opened(delta.channel)
            kind = ag.ReasoningContent if delta.channel == "thinking" else ag.TextContent
            yield kind(message_id=self._message_id, delta=delta.text)

    @property
    def _message_id(self) -> str:
        return f"{self._accepted.turn_id}.{self._accepted.seq}.{self._messages}"

    def _opened(self, channel: str) -> Iterator[ag.Said]:
        self._channel = channel
        self._messages += 1
        self._told.add(channel)
        if channel == "thinking":
            yield ag.ReasoningStart(message_id=self._message_id)
            yield ag.ReasoningMessageStart(message_id=self._message_id, role="reasoning")
        else:
            yield ag.TextStart(message_id=self._message_id, role="assistant")

    def _closed(self) -> Iterator[ag.Said]:
        channel, self._channel = self._channel, ""
        if channel == "thinking":
            yield ag.ReasoningMessageEnd(message_id=self._message_id)
            yield ag.ReasoningEnd(message_id=self._message_id)
        elif channel:
            yield ag.TextEnd(message_id=self._message_id)

    def _block(self, stored: ChatBlock) -> Iterator[ag.Said]:
        if msgspec.json.decode(stored.block, type=_Kind).type not in _WANTED:
            return
        match decode_block(bytes(stored.block), EPOCH).block:
            case Thinking(text=str(text)):
                yield from self._whole("thinking", text)
            case Notes(text=str(text)):
                yield from self._whole("timeline_text", text)
            case Completion(text=str(text)):
                yield from self._whole("answer", text)
            case ToolCall(tool_call_id=call_id, tool_id=tool_id, params=params):
                yield from self._closed()
                yield ag.ToolStart(tool_call_id=call_id, tool_call_name=tool_id)
                yield ag.ToolArgs(tool_call_id=call_id, delta=_args(params) if isinstance(params, str) else "{}")
                yield ag.ToolEnd(tool_call_id=call_id)
            case ResultStatus(tool_call_id=call_id, text=str(text)):
                yield self._result(call_id, stored.seq, text)
            case ResultContent(tool_call_id=call_id, text=str(text)) as content:
                yield self._result(call_id, stored.seq, KEPT if _is_kept(content) else text)
            case _:
                pass

    def _result(self, call_id: str, seq: int, text: str) -> ag.Said:
        message_id = f"{self._accepted.turn_id}.{seq}"
        return ag.ToolResult(message_id=message_id, tool_call_id=call_id, content=text, role="tool")

    def _whole(self, channel: str, text: str) -> Iterator[ag.Said]:
        """End the message of a stored text; send the whole text first if it was not streamed."""
        if channel not in self._told and text:
            yield from self._closed()
            yield from self._opened(channel)
            kind = ag.ReasoningContent if channel == "thinking" else ag.TextContent
            yield kind(message_id=self._message_id, delta=text)
        if self._channel == channel:
            yield from self._closed()
        self._told.discard(channel)

    def _next_step(self, name: str) -> Iterator[ag.Said]:
        yield from self._closed()
        if self._step:
            yield ag.StepFinished(step_name=self._step)
        self._step = name
        if name:
            yield ag.StepStarted(step_name=name)

    def _waits(self) -> Iterator[ag.Said]:
        yield from self._next_step("")
        yield self._finished(ag.Outcome(type="interrupt", interrupts=tuple(self._interrupts)))

    def _ended(self) -> Iterator[ag.Said]:
        yield from self._next_step("")
        answer = self._answer
        if answer.error:
            yield ag.RunError(message=answer.error.message, code=answer.error.code)
        elif answer.reason in CANCELLED:
            yield self._finished(ag.Outcome(type="cancelled"))
        elif not answer.pieces:
            yield ag.RunError(message=answer.words or "the turn ended without an answer", code=answer.reason or "")
        else:
            yield self._finished(ag.Outcome(type="success"))

    def _finished(self, outcome: ag.Outcome) -> ag.Said:
        used = self._answer.usage
        prompt = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
        usage = ag.TokenUsage(
            input_tokens=prompt,
            output_tokens=used.output_tokens,
            total_tokens=prompt + used.output_tokens,
            cached_input_tokens=used.cache_read_tokens,
            cache_write_input_tokens=used.cache_write_tokens,
        )
        return ag.RunFinished(thread_id=self._thread, run_id=self._run, outcome=outcome, usage=(usage,))


def _args(params: str) -> str:
    """Return the parameters without the text of a file that is hidden from the user."""
    if msgspec.json.decode(params, type=_Params).channel != INTERNAL:
        return params
    told = msgspec.json.decode(params, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({name: value for name, value in told.items() if name != "content"}).decode()


def _is_kept(content: ResultContent) -> bool:
    is_file, digest = content.artifact_path.startswith("fi:"), content.digest
    return is_file and digest is not None and digest.visibility == INTERNAL
