"""The services and limits that all request handlers of one server share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from timeloom.bundles.bundle import BundleWidget
from timeloom.bundles.registry import BundleRegistry
from timeloom.ports.clock import Clock
from timeloom.ports.ids import Ids
from timeloom.ports.store import Store
from timeloom.runtime.erase.side_files import SideFileEraser
from timeloom.runtime.hub.hub import Hub
from timeloom.server.auth.access_policy import AccessPolicy
from timeloom.server.auth.audit_log import AuditLog
from timeloom.server.auth.authenticate import Authenticator
from timeloom.server.auth.revocation import RevocationMonitor
from timeloom.server.history_match import HistoryIndex
from timeloom.server.http.uploads import UploadLimits
from timeloom.server.observability.metrics import Metrics
from timeloom.server.rate_limit import RateLimiter
from timeloom.server.rerun_jobs import RerunJobs

WidgetKey = tuple[str, str]
"""The name of a bundle, empty for an agent without one, and the name of its widget."""

Widgets = Mapping[WidgetKey, BundleWidget]


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services and limits of one server."""

    store: Store
    hub: Hub
    bundles: BundleRegistry
    """The bundles to which conversations may belong."""
    reruns: RerunJobs
    authenticator: Authenticator
    revocation_monitor: RevocationMonitor
    audit_log: AuditLog
    workspaces: Path
    """The folder that contains one folder of files per conversation."""
    side_file_erasers: tuple[SideFileEraser, ...]
    """Erase a conversation from files that other programs keep in the same data folder."""
    clock: Clock
    ids: Ids
    max_body_bytes: int
    tenant: str = "local"
    project: str = "default"
    """Used by keys for all tenants or projects on routes that name none; `timeloom chat` uses the same."""
    histories: HistoryIndex = field(default_factory=HistoryIndex)
    drain_timeout_s: float = 3.0
    """Seconds that a client may take to receive the last event of its stream before the connection is closed."""
    uploads: UploadLimits = field(default_factory=UploadLimits)
    access_policy: AccessPolicy = field(default_factory=AccessPolicy)
    rate_limiter: RateLimiter = field(default_factory=RateLimiter)
    metrics: Metrics = field(default_factory=Metrics)
    widgets: Widgets = field(default_factory=dict[WidgetKey, BundleWidget])
    """The widgets of the server that show declared channels, beside those of bundles."""

    def list_widgets(self) -> Widgets:
        """Return the widgets of the server and of its bundles, as they are loaded now."""
        return {**self.bundles.list_widgets(), **self.widgets}
