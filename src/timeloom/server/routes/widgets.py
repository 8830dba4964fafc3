"""Serves widgets: HTML documents of bundles that show declared channels in a frame without an origin."""

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
"""Stands before every widget. Its script runs before any other."""


class WidgetQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The bundle of the widget; empty for an agent without a bundle."""

    bundle: Annotated[str, Meta(max_length=64)] = ""


async def get_widget(context: RequestContext, query: WidgetQuery) -> HTMLResponse:
    """Return the document of a widget, for a frame that has no origin and may not send requests."""
    services, name = context.services, context.request.path_params["widget"]
    widget = services.list_widgets().get((query.bundle, name))
    if widget is None:
        raise CodedError("widget_unknown", f"no widget {name[:64]!r} in the bundle {query.bundle!r}")
    embedding = services.access_policy.allow_origins
    headers = {
        "content-security-policy": frame_csp("'unsafe-inline'", *EMBEDDED_CONTENT, embedding=embedding),
        "cache-control": "no-cache",
        "x-dns-prefetch-control": "off",
        "x-frame-options": "SAMEORIGIN",
    }
    return HTMLResponse(_GUARD + widget.html, headers=headers)
