"""Builds the JSON body of a chat completions request, for OpenAI and compatible services."""

import msgspec

from timeloom.core.render.native_tools import NativeTool
from timeloom.ports.model import ModelRequest
from timeloom.providers.openai.content import ContentCache


def request_body(model: str, request: ModelRequest, *, official: bool, contents: ContentCache | None = None) -> bytes:
    """Return the JSON body of a streaming request; `official` is OpenAI, which supports more and rejects old names.

    `contents` keeps what is encoded for the next request of the conversation; the body is the same without it.
    """
    content = (contents or ContentCache()).encode(request, official=official)
    messages: list[dict[str, object]] = [{"role": "user", "content": msgspec.Raw(content)}]
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


def _tool(tool: NativeTool) -> dict[str, object]:
    schema = msgspec.Raw(tool.params_schema.encode())
    function = {"name": tool.name, "description": tool.description, "parameters": schema}
    return {"type": "function", "function": function}
