"""Model endpoints: the scripted model of `timeloom model serve`, and a recording proxy."""

import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from socket import create_server
from typing import Final

import httpx2
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as Passing
from starlette.responses import Response
from starlette.routing import Route

from bench.loop_side import SentHttpRequest

_PASSED_ON: Final = ("accept", "content-type", "x-timeloom-call-number", "x-timeloom-purpose")
"""Headers that affect the answer; all others are not forwarded."""


@contextmanager
def serve_script(folder: Path, steps: Sequence[dict[str, object]]) -> Generator[str]:
    """Run a process that answers by these steps, and yield its base URL."""
    script = folder / "script.yaml"
    # JSON is YAML.
    script.write_bytes(msgspec.json.encode(steps))
    command = [sys.executable, "-m", "timeloom", "model", "serve", "--script", str(script), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield f"{process.stdout.readline().split()[-1]}/v1"
        finally:
            process.terminate()


@contextmanager
def record_requests(url: str, requests: list[SentHttpRequest]) -> Generator[str]:
    """Run a proxy that forwards everything to that URL and records the requests; yield its base URL."""

    async def forward(passing: Passing) -> Response:
        headers = {name: passing.headers[name] for name in _PASSED_ON if name in passing.headers}
        request = SentHttpRequest(passing.url.path, headers, (await passing.body()).decode())
        requests.append(request)
        async with httpx2.AsyncClient(base_url=url.removesuffix("/v1"), timeout=60) as client:
            reply = await client.post(request.path, content=request.body.encode(), headers=headers)
        return Response(reply.content, reply.status_code, media_type=reply.headers["content-type"])

    app = Starlette(routes=[Route("/{rest:path}", forward, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
    with create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            server.should_exit = True
            thread.join()
