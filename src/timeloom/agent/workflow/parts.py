"""The parts that a workflow needs of the program that runs it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from timeloom.agent.workflow.bundle_loads import BundleLoads
from timeloom.agent.workflow.faults import CodeFault
from timeloom.agent.workflow.supervise import HOOK_S
from timeloom.app import NO_SIDE_MODELS, AgentSettings, SharedParts, SideModels
from timeloom.bundles.bundle import Bundle
from timeloom.bundles.context import BundleContext, make_context
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.ports.model import Model
from timeloom.ports.store import Store
from timeloom.runtime.session.session import Session
from timeloom.tools.registry import ToolRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowParts:
    """The conversation, its bundle, and the parts from which its turn runners are built."""

    bundle: Bundle
    session: Session
    store: Store
    model: Model
    settings: AgentSettings
    on_delta: Callable[[LiveDelta], None]
    registry: ToolRegistry
    side_models: SideModels = NO_SIDE_MODELS
    loads: BundleLoads = field(default_factory=BundleLoads)
    """The bundles that this process has loaded."""
    shared: dict[object, SharedParts] = field(default_factory=dict[object, SharedParts])
    """The system texts of the toolsets that workflows built, for all conversations of the bundle."""
    on_fault: Callable[[CodeFault], None] = lambda _: None
    """Receives each fault of the bundle's code."""
    hook_s: float = HOOK_S
    base_url: str = ""
    """The address of the server, for the URLs of files; empty makes them relative."""

    @property
    def context(self) -> BundleContext:
        """The values that the bundle's code may read."""
        return make_context(self.bundle, self.settings.secrets)

    @property
    def folder(self) -> Path:
        """The bundle's own folder in the data folder."""
        return self.settings.data_dir / "bundles" / self.bundle.name
