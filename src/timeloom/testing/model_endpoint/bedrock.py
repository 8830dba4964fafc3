"""Reads requests and writes replies in the format of Bedrock's ConverseStream, with its binary frames.

The shapes are those of botocore's service model `bedrock-runtime/2023-09-30`; the frames those of
`application/vnd.amazon.eventstream`.
"""

import struct
import zlib
from collections.abc import Mapping
from typing import Final

import msgspec

from timeloom.core.blocks import Usage
from timeloom.ports.model import ErrorKind, StopReason
from timeloom.testing.model_endpoint.dialect import EndpointReply, EndpointRequest, ToolUse, encode_event

ERRORS: Final[Mapping[ErrorKind, tuple[int, str, str]]] = {
    "overloaded": (503, "serviceUnavailableException", "Bedrock is unable to process your request."),
    "rate_limited": (429, "throttlingException", "Too many tokens, please wait before trying again."),
    "context_too_long": (400, "validationException", "Input is too long for requested model."),
    "timeout": (408, "modelTimeoutException", "The request took too long to process."),
    "unauthorized": (403, "accessDeniedException", "You don't have access to the model with the specified model ID."),
    "invalid": (400, "validationException", "The provided request is not valid"),
}
STOP_REASONS: Final[Mapping[StopReason, str]] = {"max_tokens": "max_tokens", "stop_sequence": "stop_sequence"}

STRING_HEADER: Final = 7
"""The type of a header whose value is a string."""


class _Block(msgspec.Struct, frozen=True):
    text: str = ""


class _BedrockMessage(msgspec.Struct, frozen=True):
    role: str
    content: list[_Block]


class _ToolSpec(msgspec.Struct, frozen=True):
    name: str = ""


class _BedrockTool(msgspec.Struct, frozen=True, rename="camel"):
    tool_spec: _ToolSpec | None = None


class _ToolConfig(msgspec.Struct, frozen=True):
    tools: list[_BedrockTool]


class _BedrockRequest(msgspec.Struct, frozen=True, rename="camel"):
    messages: list[_BedrockMessage]
    system: list[_Block] = []
    tool_config: _ToolConfig | None = None


class BedrockDialect:
    """The `Dialect` of Bedrock's Converse API."""

    path = "/model/m/converse-stream"

    def parse_request(self, body: bytes) -> EndpointRequest:
        request = msgspec.json.decode(body, type=_BedrockRequest)
        texts = [(message.role, "".join(block.text for block in message.content)) for message in request.messages]
        tools = request.tool_config.tools if request.tool_config else []
        return EndpointRequest(
            model="m",
            stream=True,
            opening=next((text for role, text in texts if role == "user"), ""),
            text="".join([*(block.text for block in request.system), *(text for _, text in texts)]),
            reply_count=sum(role == "assistant" for role, _ in texts),
            tools=frozenset(tool.tool_spec.name for tool in tools if tool.tool_spec),
        )

    def opening_frames(self, model: str, usage: Usage) -> bytes:
        return event_frame("messageStart", {"role": "assistant"})

    def text_frame(self, piece: str) -> bytes:
        return event_frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": piece}})

    def thinking_frame(self, piece: str) -> bytes:
        return event_frame(
            "contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": piece}}}
        )

    def tool_use_frames(self, index: int, use: ToolUse) -> bytes:
        at = {"contentBlockIndex": index + 1}
        start = {"toolUse": {"toolUseId": use.id, "name": use.name}}
        return b"".join(
            (
                event_frame("contentBlockStart", {**at, "start": start}),
                event_frame("contentBlockDelta", {**at, "delta": {"toolUse": {"input": use.params}}}),
                event_frame("contentBlockStop", at),
            )
        )

    def closing_frames(self, reply: EndpointReply) -> bytes:
        stop = event_frame("messageStop", {"stopReason": _stop_reason(reply)})
        if not reply.with_usage:
            return stop
        return stop + event_frame("metadata", {"usage": _counts(reply.usage), "metrics": {"latencyMs": 1}})

    def full_reply(self, reply: EndpointReply) -> bytes:
        content = [{"text": reply.text}] if reply.text else []
        uses = [
            {"toolUse": {"toolUseId": use.id, "name": use.name, "input": msgspec.Raw(use.params.encode())}}
            for use in reply.tool_uses
        ]
        message = {"role": "assistant", "content": [*content, *uses]}
        return msgspec.json.encode(
            {"output": {"message": message}, "stopReason": _stop_reason(reply), "usage": _counts(reply.usage)}
        )

    def error_response(self, kind: ErrorKind) -> tuple[int, bytes]:
        status, _, message = ERRORS.get(kind, ERRORS["invalid"])
        return status, msgspec.json.encode({"message": message})

    def error_frame(self, kind: ErrorKind) -> bytes:
        _, name, message = ERRORS.get(kind, ERRORS["invalid"])
        return event_frame(name, {"message": message}, kind="exception")


def event_frame(name: str, payload: Mapping[str, object], *, kind: str = "event") -> bytes:
    """Return the frame of an event or an exception with this type."""
    headers = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    return encode_frame(headers, encode_event(payload))


def encode_frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return a frame: its lengths and their checksum, its headers, its payload and the checksum of everything."""
    packed = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", STRING_HEADER, len(value)) + value.encode()
        for name, value in headers.items()
    )
    lengths = struct.pack("!II", 12 + len(packed) + len(payload) + 4, len(packed))
    frame = lengths + struct.pack("!I", zlib.crc32(lengths)) + packed + payload
    return frame + struct.pack("!I", zlib.crc32(frame))


def _stop_reason(reply: EndpointReply) -> str:
    return "tool_use" if reply.tool_uses else STOP_REASONS.get(reply.stop_reason, "end_turn")


def _counts(usage: Usage) -> dict[str, int]:
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": prompt + usage.output_tokens,
        "cacheReadInputTokens": usage.cache_read_tokens,
        "cacheWriteInputTokens": usage.cache_write_tokens,
    }
