"""Routes for operators: health, readiness, metrics and the audit log."""

from typing import Literal

import msgspec
from starlette.responses import Response

from timeloom import __version__
from timeloom.core.codes import CodedError
from timeloom.server.auth.audit_log import AuditPage, AuditQuery
from timeloom.server.observability.metrics import CONTENT_TYPE
from timeloom.server.services import RequestContext


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The server is up."""

    status: Literal["ok"] = "ok"
    version: str = __version__


async def get_health(_call: RequestContext) -> Health:
    """Check that the server is up."""
    return Health()


async def get_ready(call: RequestContext) -> Health:
    """Check that the server accepts requests: its store responds and it is not shutting down."""
    if call.place.hub.is_closing:
        raise CodedError("server_closing", "the server is shutting down")
    await call.place.store.conversation_ids(limit=1)
    return Health()


class MetricsText(Response):
    """Metrics in the Prometheus text format."""

    media_type = CONTENT_TYPE


async def get_metrics(call: RequestContext) -> MetricsText:
    """Return the server's metrics in the Prometheus text format."""
    if call.place.rules.metrics == "off":
        raise CodedError("route_unknown", "metrics are turned off; see the setting `server.metrics`")
    return MetricsText(call.place.metrics.text())


async def get_audit(call: RequestContext, query: AuditQuery) -> AuditPage:
    """List decisions, erasures, deletions and access to conversations of other users, oldest first."""
    return await call.place.audit.page(call.tenant, call.project, query)
