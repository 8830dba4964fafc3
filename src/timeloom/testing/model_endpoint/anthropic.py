"""Reads requests and writes replies in the format of the Anthropic Messages API."""

from collections.abc import Mapping
from typing import Final

import msgspec

from timeloom.core.blocks import Usage
from timeloom.ports.model import ErrorKind, StopReason
from timeloom.testing.model_endpoint.dialect import EndpointReply, EndpointRequest, ToolUse, encode_event, text_of

ERRORS: Final[Mapping[ErrorKind, tuple[int, str, str]]] = {
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "rate_limited": (429, "rate_limit_error", "Number of requests has exceeded your rate limit"),
    "context_too_long": (400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum"),
    "timeout": (504, "timeout_error", "Request timed out"),
    "unauthorized": (401, "authentication_error", "invalid x-api-key"),
    "invalid": (400, "invalid_request_error", "the request cannot be answered"),
}
STOP_REASONS: Final[Mapping[StopReason, str]] = {"end": "end_turn", "other": "pause_turn"}


class _AnthropicMessage(msgspec.Struct, frozen=True):
    role: str
    content: object


class _AnthropicTool(msgspec.Struct, frozen=True):
    name: str = ""


class _AnthropicRequest(msgspec.Struct, frozen=True):
    model: str
    messages: list[_AnthropicMessage]
    stream: bool = False
    system: object = ""
    tools: list[_AnthropicTool] | None = None


class AnthropicDialect:
    """The `Dialect` of the Anthropic Messages API."""

    path = "/v1/messages"

    def parse_request(self, body: bytes) -> EndpointRequest:
        request = msgspec.json.decode(body, type=_AnthropicRequest)
        users = [text_of(message.content) for message in request.messages if message.role == "user"]
        return EndpointRequest(
            model=request.model,
            stream=request.stream,
            opening=users[0] if users else "",
            text=text_of(request.system) + "".join(users),
            reply_count=sum(message.role == "assistant" for message in request.messages),
            tools=frozenset(tool.name for tool in request.tools or ()),
        )

    def opening_frames(self, model: str, usage: Usage) -> bytes:
        message = self._message(EndpointReply(model=model, usage=usage))
        message |= {"content": (), "stop_reason": None}
        return _frame({"type": "message_start", "message": message}) + _frame(
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        )

    def text_frame(self, piece: str) -> bytes:
        return _frame(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}},
        )

    def thinking_frame(self, piece: str) -> bytes:
        return _frame(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": piece}},
        )

    def tool_use_frames(self, index: int, use: ToolUse) -> bytes:
        # Ends the previous block first; `closing_frames` ends the last one.
        frames = (
            {"type": "content_block_stop", "index": index},
            {
                "type": "content_block_start",
                "index": index + 1,
                "content_block": _tool_use_part(use, msgspec.Raw(b"{}")),
            },
            {
                "type": "content_block_delta",
                "index": index + 1,
                "delta": {"type": "input_json_delta", "partial_json": use.params},
            },
        )
        return b"".join(map(_frame, frames))

    def closing_frames(self, reply: EndpointReply) -> bytes:
        delta = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
        frames = (
            {"type": "content_block_stop", "index": len(reply.tool_uses)},
            {"type": "message_delta", "delta": delta, "usage": _counts(reply.usage)},
            {"type": "message_stop"},
        )
        return b"".join(map(_frame, frames))

    def full_reply(self, reply: EndpointReply) -> bytes:
        return msgspec.json.encode(self._message(reply))

    def error_response(self, kind: ErrorKind) -> tuple[int, bytes]:
        status, name, message = ERRORS.get(kind, ERRORS["invalid"])
        return status, msgspec.json.encode({"type": "error", "error": {"type": name, "message": message}})

    def error_frame(self, kind: ErrorKind) -> bytes:
        _, name, message = ERRORS.get(kind, ERRORS["invalid"])
        return _frame({"type": "error", "error": {"type": name, "message": message}})

    def _message(self, reply: EndpointReply) -> dict[str, object]:
        text = [{"type": "text", "text": reply.text}] if reply.text or not reply.tool_uses else []
        uses = [_tool_use_part(used, msgspec.Raw(used.params.encode())) for used in reply.tool_uses]
        return {
            "id": "msg_script",
            "type": "message",
            "role": "assistant",
            "model": reply.model,
            "content": [*text, *uses],
            "stop_reason": _stop_reason(reply),
            "stop_sequence": None,
            "usage": _counts(reply.usage),
        }


def _tool_use_part(use: ToolUse, params: msgspec.Raw) -> dict[str, object]:
    return {"type": "tool_use", "id": use.id, "name": use.name, "input": params}


def _stop_reason(reply: EndpointReply) -> str:
    return "tool_use" if reply.tool_uses else STOP_REASONS.get(reply.stop_reason, reply.stop_reason)


def _counts(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
    }


def _frame(event: Mapping[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), encode_event(event))
