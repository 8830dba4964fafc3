"""The page: its files, built beforehand and served as they are, and whom it is shown to."""

from base64 import b64encode
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from timeloom.core.codes import CodedError
from timeloom.server.auth.authenticate import Role
from timeloom.server.services import RequestContext
from timeloom.tools.mime import mime_of

FOLDER: Final = Path(__file__).parents[1] / "web"

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "frame-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""What the page may load and run: its own files, and nothing that stands in the document."""

FRAME: Final = "frame.html"
RUNNING: Final = "running.html"
"""The frames of documents that agents wrote: as they stand, and with their scripts."""

DIAGRAM: Final = "diagram.html"
"""The frame that draws diagrams of which agents wrote the text."""

CONTENTS: Final = ("img-src data: blob:", "font-src data:", "media-src data: blob:")
"""What a document has inside itself."""


def frame_policy(scripts: str, *contents: str) -> str:
    """What a document in a frame may do: draw, without an origin and without requests."""
    return "; ".join(
        (
            "sandbox allow-scripts",
            "default-src 'none'",
            f"script-src {scripts}",
            "style-src 'unsafe-inline'",
            *contents,
            "form-action 'none'",
            "base-uri 'none'",
            "frame-ancestors 'self'",
        )
    )


FOREVER: Final = "public, max-age=31536000, immutable"

LogIn = Callable[[Request, str], Awaitable[Response]]
"""Gives the token in the address to the browser."""


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and the project that the page opens for them."""

    tenant: str
    project: str
    user: str
    role: Role
    models: tuple[str, ...]
    """With which conversations can be run again, the server's own first."""
    max_uploads: int
    """How many files can go with a message."""
    max_upload_bytes: int
    """Of all its files together."""


async def get_me(call: RequestContext) -> Me:
    """Who you are, which project is yours, which models there are, and how much can be attached."""
    return Me(
        tenant=call.tenant,
        project=call.project,
        user=call.caller.user,
        role=call.caller.role,
        models=call.place.reruns.models,
        max_uploads=call.place.uploads.max_files,
        max_upload_bytes=call.place.uploads.max_bytes,
    )


def page_routes(log_in: LogIn, folder: Path = FOLDER) -> list[Route]:
    """A route for each file of the page, as it is now; none where it was not built."""
    files = {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    index = files.pop("index.html", b"")
    if not index:
        return []

    show = _sender(index, "index.html")

    async def enter(request: Request) -> Response:
        if token := request.query_params.get("token", ""):
            try:
                return await log_in(request, token)
            except CodedError:
                return RedirectResponse("/#refused", 303)
        return await show(request)

    zipped = [Middleware(GZipMiddleware, minimum_size=1000)]
    return [Route("/", enter), *(Route(f"/{name}", _sender(files[name], name), middleware=zipped) for name in files)]


def _sender(data: bytes, name: str) -> Callable[[Request], Awaitable[Response]]:
    headers = _headers(data, name)

    async def send(_: Request) -> Response:
        return Response(data, headers=headers, media_type=mime_of(name))

    return send


def _headers(data: bytes, name: str) -> dict[str, str]:
    headers = {
        "content-security-policy": _policy(data, name),
        "cache-control": FOREVER if name.startswith("assets/") else "no-cache",
        "x-dns-prefetch-control": "off",
    }
    if name in (FRAME, RUNNING, DIAGRAM):
        headers["x-frame-options"] = "SAMEORIGIN"
    return headers


def _policy(data: bytes, name: str) -> str:
    if name == RUNNING:
        return frame_policy("'unsafe-inline'", *CONTENTS)
    if name not in (FRAME, DIAGRAM):
        return POLICY
    script = data.partition(b"<script>")[2].partition(b"</script>")[0]
    own = f"'sha256-{b64encode(sha256(script).digest()).decode()}'"
    return frame_policy(own, *(CONTENTS if name == FRAME else ()))
