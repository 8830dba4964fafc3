"""Builds the JSON body of a chat completions request, for OpenAI and compatible services."""

import base64
from collections.abc import Sequence
from typing import assert_never

import msgspec

from timeloom.core.render.native_tools import NativeTool
from timeloom.ports.model import DataSegment, ModelRequest, Segment, TextSegment

Part = dict[str, object]


def request_body(model: str, request: ModelRequest, *, official: bool) -> bytes:
    """Return the JSON body of a streaming request; `official` is OpenAI, which supports more and rejects old names."""
    messages: list[Part] = [{"role": "user", "content": _content(request.segments, official=official)}]
    if request.system.strip():
        messages.insert(0, {"role": "system", "content": request.system})
    body: dict[str, object] = {
        "model": model,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        # Reasoning counts as output.
        "max_completion_tokens" if official else "max_tokens": request.max_output_tokens + request.thinking_tokens,
    }
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.tools:
        body["tools"] = [_tool(one) for one in request.tools]
        if official:
            # Other services may reject a parameter that they do not know.
            body["parallel_tool_calls"] = request.several_calls
    return msgspec.json.encode(body)


def _tool(tool: NativeTool) -> Part:
    schema = msgspec.Raw(tool.params_schema.encode())
    function = {"name": tool.name, "description": tool.description, "parameters": schema}
    return {"type": "function", "function": function}


def _content(segments: Sequence[Segment], *, official: bool) -> str | list[Part]:
    """Return plain text if there are only text segments, as every service accepts it; adjacent text is joined."""
    parts: list[Part] = []
    text: list[str] = []
    for segment in segments:
        part = _part(segment, official=official)
        if isinstance(part, str):
            text.append(part)
            continue
        parts += _text_part(text)
        parts.append(part)
        text = []
    return [*parts, *_text_part(text)] if parts else "".join(text)


def _text_part(text: Sequence[str]) -> list[Part]:
    joined = "".join(text)
    return [{"type": "text", "text": joined}] if joined else []


def _part(segment: Segment, *, official: bool) -> str | Part:
    match segment:
        case TextSegment(text=text):
            return text
        case DataSegment(mime=mime, data=data):
            return _data(mime.partition(";")[0].strip().lower(), data, official=official)
        case _:
            assert_never(segment)


def _data(mime: str, data: bytes, *, official: bool) -> str | Part:
    if mime.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": _data_uri(mime, data)}}
    if mime == "application/pdf" and official:
        return {"type": "file", "file": {"filename": "document.pdf", "file_data": _data_uri(mime, data)}}
    return f"[{mime}, {len(data)} bytes: this model cannot see it]\n"


def _data_uri(mime: str, data: bytes) -> str:
    return f"data:{mime};base64,{base64.b64encode(data).decode()}"
