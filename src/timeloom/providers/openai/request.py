"""Builds the JSON body of a chat completions request, for OpenAI and compatible services."""

import msgspec

from timeloom.core.render.native_tools import NativeTool
from timeloom.ports.model import ModelRequest
from timeloom.providers.openai.content import ContentCache
from timeloom.providers.openai.quirks import COMPATIBLE_QUIRKS, OPENAI_QUIRKS, ChatQuirks


def request_body(
    model: str,
    request: ModelRequest,
    *,
    official: bool,
    contents: ContentCache | None = None,
    quirks: ChatQuirks | None = None,
) -> bytes:
    """Return the JSON body of a streaming request; `official` is OpenAI, which supports more and rejects old names.

    `contents` keeps what is encoded for the next request of the conversation; the body is the same without it.
    `quirks` are those of the service; without them, of OpenAI or of compatible services.
    """
    quirks = quirks or (OPENAI_QUIRKS if official else COMPATIBLE_QUIRKS)
    content = (contents or ContentCache()).encode(request, official=official)
    messages: list[dict[str, object]] = [{"role": "user", "content": msgspec.Raw(content)}]
    if request.system.strip():
        messages.insert(0, {"role": "system", "content": request.system})
    body: dict[str, object] = {"model": model, "messages": messages, "stream": True}
    if quirks.stream_options:
        body["stream_options"] = {"include_usage": True}
    # Reasoning counts as output.
    body[quirks.max_tokens_field] = request.max_output_tokens + request.thinking_tokens
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.tools:
        body["tools"] = [_tool(one) for one in request.tools]
        if quirks.parallel_tool_calls:
            body["parallel_tool_calls"] = request.several_calls
    return msgspec.json.encode(body)


def _tool(tool: NativeTool) -> dict[str, object]:
    schema = msgspec.Raw(tool.params_schema.encode())
    function = {"name": tool.name, "description": tool.description, "parameters": schema}
    return {"type": "function", "function": function}
