"""Builds the JSON body of a ConverseStream request, with its cache points."""

import base64
from collections.abc import Sequence
from typing import Final, assert_never

import msgspec

from timeloom.core.blocks.caching import Lifetime
from timeloom.core.render.native_tools import NativeTool
from timeloom.ports.model import DataSegment, ModelRequest, Segment, TextSegment
from timeloom.providers.cache_points import cache_lifetimes, drop_blank_segments

MIN_THINKING_TOKENS: Final = 1024
"""Claude's models reject a smaller budget."""

IMAGE_FORMATS: Final = {"image/jpeg": "jpeg", "image/png": "png", "image/gif": "gif", "image/webp": "webp"}

CACHING_MODELS: Final = ("anthropic.claude", "amazon.nova")
"""Parts of the ids of models with prompt caching; the service rejects a cache point for another model."""

CLAUDE: Final = "anthropic.claude"

HOUR_MODELS: Final = ("claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-6", "claude-opus-4-7")
"""Parts of the ids of models whose cache points may live an hour; others keep them for five minutes."""

Part = dict[str, object]


def request_body(model: str, request: ModelRequest) -> bytes:
    """Return the JSON body of a streaming request."""
    segments = drop_blank_segments(request.segments)
    system_point, points = cache_lifetimes(request, segments)
    content: list[Part] = []
    for segment, lifetime in zip(segments, points, strict=True):
        content += [_part(segment, len(content)), *_cache_point(model, lifetime)]
    body: dict[str, object] = {
        "messages": [{"role": "user", "content": content}],
        "inferenceConfig": _inference_settings(request),
    }
    has_system = bool(request.system.strip())
    if has_system:
        body["system"] = [{"text": request.system}, *_cache_point(model, system_point)]
    if request.tools:
        # Tools precede the system text in the cached prefix, so the system text's cache point covers them.
        tools = [*_tools(request.tools), *_cache_point(model, None if has_system else system_point)]
        body["toolConfig"] = {"tools": tools, "toolChoice": {"auto": {}}}
    if request.thinking_tokens > 0 and CLAUDE in model:
        budget = max(MIN_THINKING_TOKENS, request.thinking_tokens)
        body["additionalModelRequestFields"] = {"thinking": {"type": "enabled", "budget_tokens": budget}}
        # `maxTokens` includes thinking, and a temperature is rejected together with thinking.
        body["inferenceConfig"] = {"maxTokens": request.max_output_tokens + budget}
    return msgspec.json.encode(body)


def _inference_settings(request: ModelRequest) -> Part:
    temperature: Part = {} if request.temperature is None else {"temperature": request.temperature}
    return {"maxTokens": request.max_output_tokens, **temperature}


def _cache_point(model: str, lifetime: Lifetime | None) -> list[Part]:
    """Return the block that caches everything before it; none for a model without caching."""
    if not lifetime or not any(name in model for name in CACHING_MODELS):
        return []
    hour: Part = {"ttl": "1h"} if lifetime == "1h" and any(name in model for name in HOUR_MODELS) else {}
    return [{"cachePoint": {"type": "default", **hour}}]


def _tools(tools: Sequence[NativeTool]) -> list[Part]:
    return [
        {
            "toolSpec": {
                "name": one.name,
                "description": one.description,
                "inputSchema": {"json": msgspec.Raw(one.params_schema.encode())},
            }
        }
        for one in tools
    ]


def _part(segment: Segment, place: int) -> Part:
    match segment:
        case TextSegment(text=text):
            return {"text": text}
        case DataSegment(mime=mime, data=data):
            return _data(mime.partition(";")[0].strip().lower(), data, place)
        case _:
            assert_never(segment)


def _data(mime: str, data: bytes, place: int) -> Part:
    if mime not in IMAGE_FORMATS and mime != "application/pdf":
        return {"text": f"[{mime}, {len(data)} bytes: this model cannot see it]"}
    source = {"bytes": base64.b64encode(data).decode()}
    if mime == "application/pdf":
        # The service requires a name, which models read: a neutral one cannot carry instructions.
        return {"document": {"format": "pdf", "name": f"document-{place}", "source": source}}
    return {"image": {"format": IMAGE_FORMATS[mime], "source": source}}
