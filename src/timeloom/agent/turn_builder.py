"""Builds the turn runners of conversations: each with the tools, rules and workflow of its bundle."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from timeloom.agent.bundle_parts import BundleParts, build_bundle_parts
from timeloom.agent.workflow.attach import attach_workflow
from timeloom.agent.workflow.bundle_loads import BundleLoads
from timeloom.agent.workflow.faults import CodeFault
from timeloom.agent.workflow.parts import WorkflowParts
from timeloom.app import NO_SIDE_MODELS, AgentSettings, SharedParts, SideModels, build_shared_parts, build_turn_runner
from timeloom.bundles.fault import BundleFault, to_bundle_error, to_fault
from timeloom.bundles.loaded_bundle import LoadedBundle
from timeloom.bundles.registry import BundleRegistry
from timeloom.core.codes import CodedError
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.ports.model import Model
from timeloom.ports.store import Store
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.tools.registry import ToolRegistry


class TurnRunnerBuilder:
    """Builds turn runners from the settings and tools of a program and its bundles.

    A conversation without a bundle has the program's own tools and rules. One whose bundle is not loaded here, or is
    disabled, is refused.
    """

    def __init__(
        self, store: Store, settings: AgentSettings, tools: ToolRegistry, bundles: BundleRegistry | None = None
    ) -> None:
        self.bundles = BundleRegistry() if bundles is None else bundles
        self._store = store
        self._tools = tools
        self._settings = settings
        self._plain = BundleParts(loaded=None, settings=settings, registry=tools)
        self._parts: dict[str, BundleParts] = {}
        self._loads = BundleLoads()
        for name in self.bundles.names:
            self._disable_if_unfit(name)

    async def check(self, bundle: str) -> None:
        """Load changed files of the bundle; raise if it takes no messages here."""
        if bundle:
            await self.bundles.refresh(bundle)
            self._find_parts(bundle)

    def share(self, model: Model, bundle: str = "") -> SharedParts:
        """Return the parts that conversations of that bundle with that model share."""
        parts = self._find_parts(bundle)
        if model.name not in parts.shared:
            parts.shared[model.name] = build_shared_parts(model, parts.settings, parts.registry)
        return parts.shared[model.name]

    def build(
        self,
        session: Session,
        model: Model,
        on_delta: Callable[[LiveDelta], None],
        side: SideModels = NO_SIDE_MODELS,
        *,
        runs_workflow: bool = True,
    ) -> TurnRunner:
        """Return the runner of the session's turns. Re-runs have no workflow, because its code is not recorded."""
        bundle = session.caller.bundle
        parts = self._find_parts(bundle)
        turns = build_turn_runner(session, model, parts.settings, on_delta, self.share(model, bundle), side)
        loaded = parts.loaded
        if loaded is None:
            return turns
        turns = replace(turns, guard=_BundleGuard(self.bundles, loaded))
        if not runs_workflow:
            return turns
        workflow_parts = WorkflowParts(
            bundle=loaded.bundle,
            session=session,
            store=self._store,
            model=model,
            settings=parts.settings,
            on_delta=on_delta,
            registry=parts.registry,
            side_models=side,
            loads=self._loads,
            shared=parts.toolsets,
            on_fault=lambda fault: self._on_fault(loaded, fault),
        )
        return attach_workflow(turns, workflow_parts)

    def _find_parts(self, bundle: str) -> BundleParts:
        if not bundle:
            return self._plain
        loaded = self.bundles.get(bundle)
        known = self._parts.get(bundle)
        if known is None or known.loaded is not loaded:
            self._disable_if_unfit(bundle)
            self.bundles.get(bundle)
        return self._parts[bundle]

    def _disable_if_unfit(self, bundle: str) -> None:
        """Build the parts of a loaded bundle; one whose parts do not fit those of the program is disabled."""
        try:
            loaded = self.bundles.get(bundle)
        except CodedError:
            # It has a fault already, which requests will name.
            return
        try:
            self._parts[bundle] = build_bundle_parts(loaded, self._settings, self._tools, self.bundles.max_iterations)
        except CodedError as error:
            self.bundles.disable(loaded, to_fault(bundle, to_bundle_error(error, loaded.folder)))

    def _on_fault(self, loaded: LoadedBundle, fault: CodeFault) -> None:
        # An error of `run` ends its turn only: it may come from one message.
        if fault.code == "hook_failed":
            reason = f"{fault.where}: {fault.reason}"
            self.bundles.disable(
                loaded,
                BundleFault(bundle=fault.bundle, code=fault.code, file=fault.file, line=fault.line, reason=reason),
            )


@dataclass(frozen=True, slots=True)
class _BundleGuard:
    """Lets a turn begin while the bundle takes messages; it implements `TurnGuard`."""

    bundles: BundleRegistry
    loaded: LoadedBundle

    async def is_outdated(self) -> bool:
        name = self.loaded.bundle.name
        await self.bundles.refresh(name)
        return self.bundles.get(name) is not self.loaded
