"""Routes for operators: health, readiness, metrics and the audit log."""

from typing import Literal

import msgspec
from starlette.responses import Response

from timeloom import __version__
from timeloom.bundles.registry import BundleStatus
from timeloom.core.codes import CodedError
from timeloom.server.auth.audit_log import AuditPage, AuditQuery
from timeloom.server.observability.metrics import CONTENT_TYPE
from timeloom.server.request_context import RequestContext


class BundleHealth(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle and the place of its fault; the reason is in `GET /bundles`, which needs a token."""

    name: str
    state: Literal["ready", "disabled"]
    code: str = ""
    place: str = ""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The server is up, with the state of its bundles."""

    status: Literal["ok"] = "ok"
    version: str = __version__
    bundles: tuple[BundleHealth, ...] = ()


async def get_health(context: RequestContext) -> Health:
    """Check that the server is up, and which bundles are disabled by a fault."""
    return Health(bundles=tuple(map(_to_bundle_health, context.services.bundles.statuses())))


async def get_ready(context: RequestContext) -> Health:
    """Check that the server accepts requests: its store responds, its last write succeeded, it is not shutting down."""
    hub, store = context.services.hub, context.services.store
    if hub.is_closing:
        raise CodedError("server_closing", "the server is shutting down")
    await hub.probe_failed_write()
    if hub.last_write_failed:
        raise CodedError("store_unwritable", "the last write failed; make room on the disk of the data folder")
    await store.conversation_ids(limit=1)
    return Health()


def _to_bundle_health(bundle: BundleStatus) -> BundleHealth:
    fault = bundle.fault
    return BundleHealth(
        name=bundle.name, state=bundle.state, code=fault.code if fault else "", place=fault.place if fault else ""
    )


class MetricsResponse(Response):
    """Metrics in the Prometheus text format."""

    media_type = CONTENT_TYPE


async def get_metrics(context: RequestContext) -> MetricsResponse:
    """Return the server's metrics in the Prometheus text format."""
    if context.services.access_policy.metrics == "off":
        raise CodedError("route_unknown", "metrics are turned off; see the setting `server.metrics`")
    return MetricsResponse(context.services.metrics.render())


async def get_audit(context: RequestContext, query: AuditQuery) -> AuditPage:
    """List decisions, erasures, deletions and access to conversations of other users, oldest first."""
    return await context.services.audit_log.page(context.tenant, context.project, query)
