"""Serves widgets: HTML documents of bundles that show declared channels in a frame without an origin."""

import base64
import hashlib
from functools import lru_cache
from html.parser import HTMLParser
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.responses import HTMLResponse

from timeloom.core.codes import CodedError
from timeloom.server.request_context import RequestContext
from timeloom.server.routes.web_ui import EMBEDDED_CONTENT, frame_csp

_GUARD: Final = """<!doctype html>
<meta charset="utf-8">
<script>
  // WebRTC is the only network access that a content policy cannot block.
  for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection"])
    Object.defineProperty(window, name, { value: undefined });
</script>
"""
"""Stands before every widget. Its script runs before any other, and documents inside the widget do not have it."""


class WidgetQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The bundle of the widget; empty for an agent without a bundle."""

    bundle: Annotated[str, Meta(max_length=64)] = ""


async def get_widget(context: RequestContext, query: WidgetQuery) -> HTMLResponse:
    """Return the document of a widget, for a frame that has no origin and may not send requests."""
    services, name = context.services, context.request.path_params["widget"]
    widget = services.list_widgets().get((query.bundle, name))
    if widget is None:
        raise CodedError("widget_unknown", f"no widget {name[:64]!r} in the bundle {query.bundle!r}")
    # Browsers hash scripts with these line breaks.
    html = (_GUARD + widget.html).replace("\r\n", "\n").replace("\r", "\n")
    embedding = services.access_policy.allow_origins
    headers = {
        "content-security-policy": frame_csp(_script_sources(html), *EMBEDDED_CONTENT, embedding=embedding),
        "cache-control": "no-cache",
        "x-dns-prefetch-control": "off",
        "x-frame-options": "SAMEORIGIN",
    }
    return HTMLResponse(html, headers=headers)


@lru_cache(maxsize=64)
def _script_sources(html: str) -> str:
    """Return the sources of a policy under which only the scripts of the document itself run.

    With `unsafe-inline`, HTML in the model's text could run scripts, and a frame inside the widget has WebRTC again.
    """
    parser = _InlineScripts()
    parser.feed(html)
    parser.close()
    digests = (hashlib.sha256(script.encode()).digest() for script in dict.fromkeys(parser.scripts))
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


class _InlineScripts(HTMLParser):
    """Collects the texts of `<script>` elements. A script that a browser delimits otherwise does not run."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.scripts: list[str] = []
        self._is_open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_open = tag == "script"
        if self._is_open:
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self._is_open:
            self.scripts[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._is_open = False
