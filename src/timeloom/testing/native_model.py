"""A scripted model that answers with native tool calls, for tests of agents with `models.protocol` `native`."""

from collections.abc import AsyncGenerator

from msgspec.structs import replace

from timeloom.core.blocks import Usage
from timeloom.ports.model import FinishEvent, ModelEvent, ModelRequest, TextPiece, ToolCallPiece
from timeloom.providers.script import ScriptedModel
from timeloom.testing.model_endpoint.dialect import EndpointReply
from timeloom.testing.model_endpoint.tool_uses import with_tool_uses


class NativeScriptedModel(ScriptedModel):
    """A scripted model that turns the same replies into native tool calls where the request offers functions.

    A reply that cannot be read stays text, as a model may write it.
    """

    @property
    def native_tools(self) -> bool:
        return True

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        texts: list[str] = []
        # The script answers the request without its functions, in channels.
        async for event in super().stream(replace(request, tools=())):
            if isinstance(event, TextPiece) and request.tools:
                texts.append(event.text)
                continue
            if isinstance(event, FinishEvent):
                for piece in _to_pieces("".join(texts), request):
                    yield piece
            yield event


def _to_pieces(text: str, request: ModelRequest) -> list[ModelEvent]:
    offered = frozenset(tool.name for tool in request.tools)
    reply = with_tool_uses(EndpointReply(model="script", usage=Usage(), text=text), offered, request.number)
    calls = [ToolCallPiece(index, use.params, use.name) for index, use in enumerate(reply.tool_uses)]
    return [*([TextPiece(reply.text)] if reply.text else []), *calls]
