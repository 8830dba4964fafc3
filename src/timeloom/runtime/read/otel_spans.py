"""Builds OpenTelemetry spans (gen_ai conventions) from a log; the same log always gives the same spans."""

from hashlib import sha256
from typing import Final, Literal

import msgspec

from timeloom.core.blocks import (
    AnyBlock,
    ModelAnswered,
    ModelCalled,
    ResultDigest,
    ResultStatus,
    ToolCall,
    TurnEnded,
    TurnStarted,
    Usage,
)
from timeloom.core.blocks.turn import EndReason
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.timeline import Entry, microseconds_between

AGENT: Final = "timeloom"

_EPOCH: Final = "1970-01-01T00:00:00Z"

_SUCCESSFUL_ENDS: Final[frozenset[EndReason]] = frozenset({"completed", "exited", "stopped", "cancelled"})
"""End reasons that are not failures."""

Attribute = str | int | tuple[str, ...]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A finished span; its ids are derived from its position, so that building it again gives the same ids."""

    trace_id: str
    """32 hex digits: one for each turn."""
    span_id: str
    """16 hex digits."""
    parent_id: str = ""
    name: str
    kind: Literal["internal", "client"]
    start_ns: int
    end_ns: int
    attributes: dict[str, Attribute]
    error: str = ""
    """The error code; empty without an error."""


class _OpenSpan(msgspec.Struct, frozen=True):
    entry: Entry
    attributes: dict[str, Attribute]


class SpanBuilder:
    """Builds spans from the entries of one conversation, in order; each span is returned when it ends.

    Texts of people, models and tools are included only if `content` is set, and only if they are stored inline.
    """

    def __init__(self, conversation: ConversationId, *, content: bool = False) -> None:
        self._conversation = conversation
        self._content = content
        self._open_turns: dict[TurnId, Entry] = {}
        self._open_model_calls: dict[tuple[TurnId, str, int, int], _OpenSpan] = {}
        self._open_tool_calls: dict[tuple[TurnId, CallId], _OpenSpan] = {}

    def add(self, entry: Entry) -> Span | None:
        """Add the next entry and return the span that it ends, if any."""
        block, turn = entry.block, entry.turn_id
        match block:
            case TurnStarted():
                self._open_turns[turn] = entry
            case ModelCalled(purpose=purpose, round=number, attempt=attempt):
                self._open_model_calls[turn, purpose, number, attempt] = _OpenSpan(entry, _request_attributes(block))
            case ModelAnswered(purpose=purpose, round=number, attempt=attempt):
                if open_span := self._open_model_calls.pop((turn, purpose, number, attempt), None):
                    return self._finish_model_call(open_span, entry, block)
            case ToolCall(tool_call_id=call_id):
                self._open_tool_calls[turn, call_id] = _OpenSpan(entry, self._call_attributes(block))
            case ResultDigest(tool_call_id=call_id) | ResultStatus(tool_call_id=call_id):
                # A call has a result for each artifact; they are appended together, so the first ends the span.
                if open_span := self._open_tool_calls.pop((turn, call_id), None):
                    return self._finish_span(
                        f"execute_tool {_tool_name(open_span)}", open_span, entry, _error_code(block)
                    )
            case TurnEnded(reason=reason):
                return self._finish_turn(entry, reason)
            case _:
                pass
        return None

    def _finish_turn(self, end: Entry, reason: EndReason) -> Span | None:
        started = self._open_turns.pop(end.turn_id, None)
        # Calls without a result at the end of the turn get none later.
        self._open_model_calls = {key: begun for key, begun in self._open_model_calls.items() if key[0] != end.turn_id}
        self._open_tool_calls = {key: begun for key, begun in self._open_tool_calls.items() if key[0] != end.turn_id}
        if started is None:
            return None
        attributes: dict[str, Attribute] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": AGENT,
            "timeloom.turn.end_reason": reason,
        }
        error = "" if reason in _SUCCESSFUL_ENDS else reason
        return self._finish_span(f"invoke_agent {AGENT}", _OpenSpan(started, attributes), end, error)

    def _finish_model_call(self, open_span: _OpenSpan, end: Entry, answer: ModelAnswered) -> Span:
        attributes = open_span.attributes | {"gen_ai.response.model": answer.model}
        attributes["gen_ai.response.finish_reasons"] = (answer.stop_reason,)
        if answer.usage_reported:
            attributes |= _usage_attributes(answer.usage)
        if self._content and isinstance(answer.text, str):
            attributes["gen_ai.output.messages"] = _output_message(answer.text, answer.stop_reason)
        name = f"chat {attributes['gen_ai.request.model']}"
        return self._finish_span(name, _OpenSpan(open_span.entry, attributes), end, answer.error)

    def _call_attributes(self, call: ToolCall) -> dict[str, Attribute]:
        attributes: dict[str, Attribute] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.tool_id,
            "gen_ai.tool.call.id": call.tool_call_id,
            "gen_ai.tool.type": "function",
        }
        if self._content and isinstance(call.params, str):
            attributes["gen_ai.tool.call.arguments"] = call.params
        return attributes

    def _finish_span(self, name: str, open_span: _OpenSpan, end: Entry, error: str) -> Span:
        start = open_span.entry
        turn = self._open_turns.get(start.turn_id)
        attributes = {**open_span.attributes, "gen_ai.conversation.id": self._conversation}
        attributes |= {"timeloom.turn.id": start.turn_id, "timeloom.seq": start.seq}
        if error:
            attributes["error.type"] = error
        start_ns = _ns(start.ts)
        return Span(
            trace_id=sha256(f"{self._conversation}/{start.turn_id}".encode()).hexdigest()[:32],
            span_id=self._span_id(start),
            parent_id=self._span_id(turn) if turn else "",
            name=name,
            kind="client" if isinstance(start.block, ModelCalled) else "internal",
            start_ns=start_ns,
            end_ns=max(start_ns, _ns(end.ts)),
            attributes=attributes,
            error=error,
        )

    def _span_id(self, entry: Entry) -> str:
        return sha256(f"{self._conversation}/{entry.turn_id}/{entry.seq}".encode()).hexdigest()[:16]


def _request_attributes(call: ModelCalled) -> dict[str, Attribute]:
    provider, _, model = call.model.rpartition(":")
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider or AGENT,
        "gen_ai.request.model": model,
        "timeloom.model.purpose": call.purpose,
        "timeloom.model.attempt": call.attempt,
        "timeloom.round": call.round,
    }


def _usage_attributes(usage: Usage) -> dict[str, Attribute]:
    """Return the usage attributes; the conventions count cache reads and writes as input tokens."""
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
    }


def _output_message(text: str, stop_reason: str) -> str:
    message = {"role": "assistant", "parts": [{"type": "text", "content": text}], "finish_reason": stop_reason}
    return msgspec.json.encode([message]).decode()


def _tool_name(open_span: _OpenSpan) -> str:
    return str(open_span.attributes["gen_ai.tool.name"])


def _error_code(block: AnyBlock) -> str:
    match block:
        case ResultDigest(digest=digest):
            return digest.error.code if digest.error else ""
        case ResultStatus(error=error):
            return error.code if error else ""
        case _:
            return ""


def _ns(ts: str) -> int:
    return microseconds_between(_EPOCH, ts) * 1000
