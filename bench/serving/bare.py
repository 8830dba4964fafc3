"""Bare Starlette for comparison: an echo of prepared events, and a relay that streams from the model.

It runs as a separate process, reads the echo's events as a line of JSON from standard input and prints its address.
"""

import socket
import sys
from collections.abc import AsyncGenerator, Sequence

import httpx2
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

_EVENTS = "text/event-stream"


def make_app(events: Sequence[bytes], model_url: str) -> Starlette:
    """Return an application with the echo and the relay, and no middleware."""

    async def echo(request: Request) -> Response:
        await request.body()

        async def sent() -> AsyncGenerator[bytes]:
            for event in events:
                yield event

        return StreamingResponse(sent(), media_type=_EVENTS)

    async def relay(request: Request) -> Response:
        body = await request.body()

        async def sent() -> AsyncGenerator[bytes]:
            asked = {"model": "bench", "stream": True, "messages": [{"role": "user", "content": body.decode()}]}
            async with client.stream("POST", f"{model_url}/v1/chat/completions", json=asked) as answer:
                async for piece in answer.aiter_raw():
                    # Each under the event name that the load generator expects.
                    yield piece.replace(b"data: ", b"event: chat.delta\ndata: ")

        return StreamingResponse(sent(), media_type=_EVENTS)

    client = httpx2.AsyncClient(timeout=60)
    return Starlette(routes=[Route("/echo", echo, methods=["POST"]), Route("/relay", relay, methods=["POST"])])


def main() -> None:
    """Serve until the process is terminated."""
    events = msgspec.json.decode(sys.stdin.readline(), type=list[str])
    config = uvicorn.Config(
        make_app([event.encode() for event in events], sys.argv[1]), log_config=None, access_log=False, lifespan="off"
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # As uvicorn sets it on its own sockets.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(f"serving on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
