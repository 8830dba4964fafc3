"""Routes of the server itself: whether it lives and takes requests, what it has counted, and its audit trail."""

from typing import Literal

import msgspec
from starlette.responses import Response

from timeloom import __version__
from timeloom.core.codes import CodedError
from timeloom.server.auth.audit_log import AuditPage, AuditQuery
from timeloom.server.observability.metrics import CONTENT_TYPE
from timeloom.server.services import RequestContext


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The server is there."""

    status: Literal["ok"] = "ok"
    version: str = __version__


async def get_health(_call: RequestContext) -> Health:
    """Whether the server lives."""
    return Health()


async def get_ready(call: RequestContext) -> Health:
    """Whether the server takes requests: its store answers, and it is not closing."""
    if call.place.hub.is_closing:
        raise CodedError("server_closing", "the server is closing")
    await call.place.store.conversation_ids(limit=1)
    return Health()


class MetricsText(Response):
    """Metrics, as Prometheus reads them."""

    media_type = CONTENT_TYPE


async def get_metrics(call: RequestContext) -> MetricsText:
    """What the server does and has done, for Prometheus."""
    if call.place.rules.metrics == "off":
        raise CodedError("route_unknown", "this server tells no metrics")
    return MetricsText(call.place.metrics.text())


async def get_audit(call: RequestContext, query: AuditQuery) -> AuditPage:
    """Who decided, erased, deleted, or was let in to what is not their own, oldest first."""
    return await call.place.audit.page(call.tenant, call.project, query)
