"""Denials: a WebSocket that is refused with a response has been answered, which uvicorn takes for an error of ours."""

from typing import TYPE_CHECKING

from typing_extensions import override
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent


class QuietDenials(WebSocketsSansIOProtocol):
    """Logs nothing of a handshake that was refused."""

    @override
    async def send(self, message: "ASGISendEvent") -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True
