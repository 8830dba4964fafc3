"""Builds the JSON body of a request to Anthropic's messages API, with its cache points."""

import base64
from collections.abc import Sequence
from typing import Final, assert_never

import msgspec

from timeloom.core.blocks.caching import Lifetime
from timeloom.core.render.native_tools import NativeTool
from timeloom.ports.model import DataSegment, ModelRequest, Segment, TextSegment
from timeloom.providers.cache_points import cache_lifetimes, drop_blank_segments

MIN_THINKING_TOKENS: Final = 1024
"""The API rejects a smaller budget."""

IMAGE_MIMES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
CACHE_CONTROL: Final[dict[Lifetime, dict[str, str]]] = {
    "5m": {"type": "ephemeral"},
    "1h": {"type": "ephemeral", "ttl": "1h"},
}

Part = dict[str, object]


def request_body(model: str, request: ModelRequest) -> bytes:
    """Return the JSON body of a streaming request."""
    segments = drop_blank_segments(request.segments)
    system_point, points = cache_lifetimes(request, segments)
    body: dict[str, object] = {
        "model": model,
        "max_tokens": request.max_output_tokens,
        "stream": True,
        "messages": [
            {"role": "user", "content": [_part(s, at) for s, at in zip(segments, points, strict=True)]},
        ],
    }
    if request.tools:
        # Tools precede the system text in the cached prefix, so the system text's cache point covers them.
        body["tools"] = _tools(request.tools, None if request.system.strip() else system_point)
        body["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": not request.several_calls}
    if request.system.strip():
        body["system"] = [_with_cache_control({"type": "text", "text": request.system}, system_point)]
    if request.thinking_tokens > 0:
        budget = max(MIN_THINKING_TOKENS, request.thinking_tokens)
        body["thinking"] = {"type": "enabled", "budget_tokens": budget}
        # `max_tokens` includes thinking, and the API rejects a temperature together with thinking.
        body["max_tokens"] = request.max_output_tokens + budget
    elif request.temperature is not None:
        body["temperature"] = request.temperature
    return msgspec.json.encode(body)


def _tools(tools: Sequence[NativeTool], lifetime: Lifetime | None) -> list[Part]:
    parts: list[Part] = [
        {"name": one.name, "description": one.description, "input_schema": msgspec.Raw(one.params_schema.encode())}
        for one in tools
    ]
    parts[-1] = _with_cache_control(parts[-1], lifetime)
    return parts


def _part(segment: Segment, lifetime: Lifetime | None) -> Part:
    match segment:
        case TextSegment(text=text):
            return _with_cache_control({"type": "text", "text": text}, lifetime)
        case DataSegment(mime=mime, data=data):
            return _with_cache_control(_data(mime.partition(";")[0].strip().lower(), data), lifetime)
        case _:
            assert_never(segment)


def _data(mime: str, data: bytes) -> Part:
    if mime not in IMAGE_MIMES and mime != "application/pdf":
        return {"type": "text", "text": f"[{mime}, {len(data)} bytes: this model cannot see it]"}
    source = {"type": "base64", "media_type": mime, "data": base64.b64encode(data).decode()}
    return {"type": "image" if mime in IMAGE_MIMES else "document", "source": source}


def _with_cache_control(part: Part, lifetime: Lifetime | None) -> Part:
    return {**part, "cache_control": CACHE_CONTROL[lifetime]} if lifetime else part
