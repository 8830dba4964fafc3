"""Keeps uvicorn from logging an error when a WebSocket handshake is rejected with a response."""

from typing import TYPE_CHECKING

from typing_extensions import override
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent


class QuietDenialProtocol(WebSocketsSansIOProtocol):
    """Treats a rejected handshake as complete, so uvicorn logs no error."""

    @override
    async def send(self, message: "ASGISendEvent") -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True
