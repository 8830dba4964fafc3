"""Reads requests and writes replies in the format of OpenAI Chat Completions."""

from collections.abc import Mapping
from typing import Final

import msgspec

from timeloom.core.blocks import Usage
from timeloom.ports.model import ErrorKind, StopReason
from timeloom.testing.model_endpoint.dialect import EndpointReply, EndpointRequest, ToolUse, encode_event, text_of

ERRORS: Final[Mapping[ErrorKind, tuple[int, str, str]]] = {
    "overloaded": (503, "server_error", "The server is overloaded"),
    "rate_limited": (429, "rate_limit_exceeded", "Rate limit reached"),
    "context_too_long": (400, "context_length_exceeded", "This model's maximum context length is 128000 tokens"),
    "timeout": (504, "timeout_error", "Request timed out"),
    "unauthorized": (401, "invalid_api_key", "Incorrect API key provided"),
    "invalid": (400, "invalid_request_error", "the request cannot be answered"),
}
FINISH_REASONS: Final[Mapping[StopReason, str]] = {"max_tokens": "length"}


class _OpenAIMessage(msgspec.Struct, frozen=True):
    role: str
    content: object = ""


class _Function(msgspec.Struct, frozen=True):
    name: str = ""


class _OpenAITool(msgspec.Struct, frozen=True):
    function: _Function | None = None


class _StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False


class _OpenAIRequest(msgspec.Struct, frozen=True):
    model: str
    messages: list[_OpenAIMessage]
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    tools: list[_OpenAITool] | None = None


class OpenAIDialect:
    """The `Dialect` of OpenAI Chat Completions."""

    path = "/v1/chat/completions"

    def parse_request(self, body: bytes) -> EndpointRequest:
        request = msgspec.json.decode(body, type=_OpenAIRequest)
        texts = [(message.role, text_of(message.content or "")) for message in request.messages]
        return EndpointRequest(
            model=request.model,
            stream=bool(request.stream),
            opening=next((text for role, text in texts if role == "user"), ""),
            text="".join(text for role, text in texts if role != "assistant"),
            reply_count=sum(role == "assistant" for role, _ in texts),
            wants_usage=request.stream_options is not None and request.stream_options.include_usage,
            tools=frozenset(tool.function.name for tool in request.tools or () if tool.function),
        )

    def opening_frames(self, model: str, usage: Usage) -> bytes:
        return _frame(_chunk(model, {"role": "assistant", "content": ""}))

    def text_frame(self, piece: str) -> bytes:
        return _frame(_chunk("", {"content": piece}))

    def thinking_frame(self, piece: str) -> bytes:
        return _frame(_chunk("", {"reasoning_content": piece}))

    def tool_use_frames(self, index: int, use: ToolUse) -> bytes:
        return _frame(_chunk("", {"tool_calls": [{"index": index, **_tool_call(use)}]}))

    def closing_frames(self, reply: EndpointReply) -> bytes:
        last = _frame(_chunk(reply.model, {}, _finish_reason(reply)))
        if reply.with_usage:
            last += _frame(_chunk(reply.model, None) | {"usage": _counts(reply.usage)})
        return last + b"data: [DONE]\n\n"

    def full_reply(self, reply: EndpointReply) -> bytes:
        message: dict[str, object] = {"role": "assistant", "content": reply.text}
        if reply.tool_uses:
            message |= {"content": reply.text or None, "tool_calls": [_tool_call(used) for used in reply.tool_uses]}
        choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
        completion = _chunk(reply.model, None) | {
            "object": "chat.completion",
            "choices": [choice],
            "usage": _counts(reply.usage),
        }
        return msgspec.json.encode(completion)

    def error_response(self, kind: ErrorKind) -> tuple[int, bytes]:
        status, code, message = ERRORS.get(kind, ERRORS["invalid"])
        return status, msgspec.json.encode({"error": {"message": message, "type": code, "param": None, "code": code}})

    def error_frame(self, kind: ErrorKind) -> bytes:
        return b"data: %b\n\n" % self.error_response(kind)[1]


def _tool_call(use: ToolUse) -> dict[str, object]:
    return {"id": use.id, "type": "function", "function": {"name": use.name, "arguments": use.params}}


def _finish_reason(reply: EndpointReply) -> str:
    return "tool_calls" if reply.tool_uses else FINISH_REASONS.get(reply.stop_reason, "stop")


def _chunk(model: str, delta: Mapping[str, object] | None, finish_reason: str | None = None) -> dict[str, object]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {
        "id": "chatcmpl-script",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": model,
        "choices": [] if delta is None else [choice],
    }


def _counts(usage: Usage) -> dict[str, object]:
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
    }


def _frame(chunk: Mapping[str, object]) -> bytes:
    return b"data: %b\n\n" % encode_event(chunk)
