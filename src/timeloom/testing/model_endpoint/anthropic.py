"""Reads requests and writes replies in the format of the Anthropic Messages API."""

from collections.abc import Mapping
from typing import Final

import msgspec

from timeloom.core.blocks import Usage
from timeloom.ports.model import ErrorKind, StopReason
from timeloom.testing.model_endpoint.dialect import Asked, ToolUse, Written, text_of

REFUSALS: Final[Mapping[ErrorKind, tuple[int, str, str]]] = {
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "rate_limited": (429, "rate_limit_error", "Number of requests has exceeded your rate limit"),
    "context_too_long": (400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum"),
    "timeout": (504, "timeout_error", "Request timed out"),
    "unauthorized": (401, "authentication_error", "invalid x-api-key"),
    "invalid": (400, "invalid_request_error", "the request cannot be answered"),
}
STOP_REASONS: Final[Mapping[StopReason, str]] = {"end": "end_turn", "other": "pause_turn"}


class _Message(msgspec.Struct, frozen=True):
    role: str
    content: object


class _Tool(msgspec.Struct, frozen=True):
    name: str = ""


class _Request(msgspec.Struct, frozen=True):
    model: str
    messages: list[_Message]
    stream: bool = False
    system: object = ""
    tools: list[_Tool] | None = None


class AnthropicDialect:
    """The `Dialect` of the Anthropic Messages API."""

    path = "/v1/messages"

    def asked(self, body: bytes) -> Asked:
        request = msgspec.json.decode(body, type=_Request)
        users = [text_of(message.content) for message in request.messages if message.role == "user"]
        return Asked(
            model=request.model,
            stream=request.stream,
            opening=users[0] if users else "",
            text=text_of(request.system) + "".join(users),
            replies=sum(message.role == "assistant" for message in request.messages),
            tools=frozenset(tool.name for tool in request.tools or ()),
        )

    def opening(self, model: str, usage: Usage) -> bytes:
        message = self._message(Written(model=model, usage=usage))
        message |= {"content": (), "stop_reason": None}
        return _frame({"type": "message_start", "message": message}) + _frame(
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        )

    def text(self, piece: str) -> bytes:
        return _frame(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}},
        )

    def thinking(self, piece: str) -> bytes:
        return _frame(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": piece}},
        )

    def tool_use(self, index: int, used: ToolUse) -> bytes:
        # Ends the previous block first; `closing_frames` ends the last one.
        frames = (
            {"type": "content_block_stop", "index": index},
            {"type": "content_block_start", "index": index + 1, "content_block": _part(used, msgspec.Raw(b"{}"))},
            {
                "type": "content_block_delta",
                "index": index + 1,
                "delta": {"type": "input_json_delta", "partial_json": used.params},
            },
        )
        return b"".join(map(_frame, frames))

    def closing(self, written: Written) -> bytes:
        delta = {"stop_reason": _stop_reason(written), "stop_sequence": None}
        frames = (
            {"type": "content_block_stop", "index": len(written.tool_uses)},
            {"type": "message_delta", "delta": delta, "usage": _counts(written.usage)},
            {"type": "message_stop"},
        )
        return b"".join(map(_frame, frames))

    def whole(self, written: Written) -> bytes:
        return msgspec.json.encode(self._message(written))

    def refusal(self, kind: ErrorKind) -> tuple[int, bytes]:
        status, name, message = REFUSALS.get(kind, REFUSALS["invalid"])
        return status, msgspec.json.encode({"type": "error", "error": {"type": name, "message": message}})

    def failure_frame(self, kind: ErrorKind) -> bytes:
        _, name, message = REFUSALS.get(kind, REFUSALS["invalid"])
        return _frame({"type": "error", "error": {"type": name, "message": message}})

    def _message(self, written: Written) -> dict[str, object]:
        text = [{"type": "text", "text": written.text}] if written.text or not written.tool_uses else []
        uses = [_part(used, msgspec.Raw(used.params.encode())) for used in written.tool_uses]
        return {
            "id": "msg_script",
            "type": "message",
            "role": "assistant",
            "model": written.model,
            "content": [*text, *uses],
            "stop_reason": _stop_reason(written),
            "stop_sequence": None,
            "usage": _counts(written.usage),
        }


def _part(used: ToolUse, params: msgspec.Raw) -> dict[str, object]:
    return {"type": "tool_use", "id": used.id, "name": used.name, "input": params}


def _stop_reason(written: Written) -> str:
    return "tool_use" if written.tool_uses else STOP_REASONS.get(written.stop_reason, written.stop_reason)


def _counts(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
    }


def _frame(event: Mapping[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), msgspec.json.encode(event))
