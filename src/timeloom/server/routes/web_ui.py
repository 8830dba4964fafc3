"""Serves the built web page and the current user's data for it."""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from timeloom.providers.registry import Provider, find_installed_provider
from timeloom.server.auth.principal import Role
from timeloom.server.http.uploads import REFUSED_SUFFIXES
from timeloom.server.request_context import RequestContext
from timeloom.server.routes.login import TOKEN_PARAMETER
from timeloom.tools.mime import guess_mime

WEB_FOLDER: Final = Path(__file__).parents[2] / "web"

PAGE_CSP: Final = "; ".join(
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
"""The Content-Security-Policy of the page: it may load its files, but no inline scripts or styles."""

FRAME: Final = "frame.html"
SCRIPT_FRAME: Final = "running.html"
"""The frames for documents that agents wrote: without and with their scripts."""

DIAGRAM_FRAME: Final = "diagram.html"
"""The frame that draws diagrams from text that agents wrote."""

EMBEDDED_CONTENT: Final = ("img-src data: blob:", "font-src data:", "media-src data: blob:")
"""Content that is embedded in a document."""


def frame_csp(scripts: str, *contents: str, embedding: Sequence[str] = ()) -> str:
    """Return the Content-Security-Policy of a frame: it has no origin and may not send requests.

    `embedding` are further origins whose pages may show the frame.
    """
    return "; ".join(
        (
            "sandbox allow-scripts",
            "default-src 'none'",
            f"script-src {scripts}",
            "style-src 'unsafe-inline'",
            *contents,
            "form-action 'none'",
            "base-uri 'none'",
            " ".join(("frame-ancestors 'self'", *embedding)),
        )
    )


CACHE_FOREVER: Final = "public, max-age=31536000, immutable"

LogIn = Callable[[Request, str], Awaitable[Response]]
"""Answers a request for the page whose address has a token."""


class WidgetInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A widget: its bundle, empty for an agent without one, its name, and the title of its frame."""

    bundle: str
    name: str
    title: str


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """The current user, their project and the limits of the page."""

    tenant: str
    project: str
    user: str
    role: Role
    model: str
    """The server's model."""
    demo: bool
    """Whether this model only demonstrates timeloom."""
    examples: tuple[str, ...]
    """Messages that this model handles well."""
    models: tuple[str, ...]
    """Models for re-runs; the server's default model comes first."""
    max_uploads: int
    """Maximum number of files per message."""
    max_upload_bytes: int
    """For all files of a message together."""
    refused_suffixes: tuple[str, ...]
    """Suffixes of file names whose types cannot be attached."""
    signs_in: bool = True
    """Whether this server signs people in and out; otherwise the application around it does."""
    widgets: tuple[WidgetInfo, ...] = ()
    """The widgets that show channels."""


async def get_me(context: RequestContext) -> Me:
    """Return the current user, their project, the models and the upload limits."""
    models = context.services.reruns.models
    provider = _find_provider(models[0])
    return Me(
        tenant=context.tenant,
        project=context.project,
        user=context.principal.user,
        role=context.principal.role,
        model=models[0],
        demo=provider.is_demo if provider else False,
        examples=provider.examples if provider else (),
        models=models,
        max_uploads=context.services.uploads.max_files,
        max_upload_bytes=context.services.uploads.max_bytes,
        refused_suffixes=REFUSED_SUFFIXES,
        signs_in=context.services.authenticator.signs_in,
        widgets=tuple(
            WidgetInfo(bundle=bundle, name=name, title=widget.title or name)
            for (bundle, name), widget in context.services.list_widgets().items()
        ),
    )


@lru_cache(maxsize=8)
def _find_provider(model: str) -> Provider | None:
    return find_installed_provider(model.partition(":")[0])


def page_routes(log_in: LogIn | None, folder: Path = WEB_FOLDER) -> list[Route]:
    """Return a route for each file of the page; none if the page was not built.

    Without `log_in`, a token in the address has no meaning.
    """
    files = {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    index = files.pop("index.html", b"")
    if not index:
        return []

    serve_index = _file_handler(index, "index.html")

    async def serve_page(request: Request) -> Response:
        if log_in and (token := request.query_params.get(TOKEN_PARAMETER, "")):
            return await log_in(request, token)
        return await serve_index(request)

    gzip = [Middleware(GZipMiddleware, minimum_size=1000)]
    return [
        Route("/", serve_page),
        *(Route(f"/{name}", _file_handler(files[name], name), middleware=gzip) for name in files),
    ]


def _file_handler(data: bytes, name: str) -> Callable[[Request], Awaitable[Response]]:
    headers = _headers(data, name)

    async def send(_: Request) -> Response:
        return Response(data, headers=headers, media_type=guess_mime(name))

    return send


def _headers(data: bytes, name: str) -> dict[str, str]:
    headers = {
        "content-security-policy": _file_csp(data, name),
        "cache-control": CACHE_FOREVER if name.startswith("assets/") else "no-cache",
        "x-dns-prefetch-control": "off",
    }
    if name in (FRAME, SCRIPT_FRAME, DIAGRAM_FRAME):
        headers["x-frame-options"] = "SAMEORIGIN"
    return headers


def _file_csp(data: bytes, name: str) -> str:
    if name == SCRIPT_FRAME:
        return frame_csp("'unsafe-inline'", *EMBEDDED_CONTENT)
    if name not in (FRAME, DIAGRAM_FRAME):
        return PAGE_CSP
    script = data.partition(b"<script>")[2].partition(b"</script>")[0]
    script_hash = f"'sha256-{b64encode(sha256(script).digest()).decode()}'"
    return frame_csp(script_hash, *(EMBEDDED_CONTENT if name == FRAME else ()))
