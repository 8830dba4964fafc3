"""The turns of bundles: finds the parts of each bundle, guards its turns and attaches its workflow."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from timeloom.agent.bundle_parts import BundleParts
from timeloom.agent.bundle_settings import build_bundle_parts
from timeloom.agent.workflow.attach import attach_workflow
from timeloom.agent.workflow.bundle_loads import BundleLoads
from timeloom.agent.workflow.faults import CodeFault
from timeloom.agent.workflow.parts import WorkflowParts
from timeloom.app import SideModels
from timeloom.bundles.fault import BundleFault, to_bundle_error, to_fault
from timeloom.bundles.loaded_bundle import LoadedBundle
from timeloom.bundles.registry import BundleRegistry
from timeloom.core.codes import CodedError
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.platform.secrets import SECRETS
from timeloom.ports.model import Model
from timeloom.ports.store import Store
from timeloom.runtime.turn.loop import TurnRunner


class BundledTurns:
    """The parts of the bundles of one program; a bundle whose parts do not fit the program is disabled."""

    def __init__(self, store: Store, plain: BundleParts, bundles: BundleRegistry) -> None:
        self.bundles = bundles
        self._store = store
        self._plain = plain
        self._parts: dict[str, BundleParts] = {}
        self._loads = BundleLoads()
        for name in bundles.names:
            self._disable_if_unfit(name)

    def find(self, bundle: str) -> BundleParts:
        """Return the parts of the bundle as it is loaded now; raises `bundle_missing` or `bundle_disabled`."""
        loaded = self.bundles.get(bundle)
        known = self._parts.get(bundle)
        if known is None or known.loaded is not loaded:
            self._disable_if_unfit(bundle)
            self.bundles.get(bundle)
        return self._parts[bundle]

    def guard(self, turns: TurnRunner, loaded: LoadedBundle) -> TurnRunner:
        """Return the runner with a guard that lets turns begin while the bundle takes messages."""
        return replace(turns, guard=_BundleGuard(self.bundles, loaded))

    def attach(
        self,
        turns: TurnRunner,
        parts: BundleParts,
        model: Model,
        on_delta: Callable[[LiveDelta], None],
        side: SideModels,
    ) -> TurnRunner:
        """Return the runner whose turns the workflow of the bundle runs; the same one if it has none."""
        loaded = parts.loaded
        assert loaded
        workflow_parts = WorkflowParts(
            bundle=loaded.bundle,
            session=turns.session,
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

    def _disable_if_unfit(self, bundle: str) -> None:
        try:
            loaded = self.bundles.get(bundle)
        except CodedError:
            # It has a fault already, which requests will name.
            return
        plain = self._plain
        try:
            self._parts[bundle] = build_bundle_parts(
                loaded, plain.settings, plain.registry, self.bundles.max_iterations
            )
        except CodedError as error:
            self.bundles.disable(loaded, to_fault(bundle, to_bundle_error(error, loaded.folder)))

    def _on_fault(self, loaded: LoadedBundle, fault: CodeFault) -> None:
        # An error of `run` ends its turn only: it may come from one message.
        if fault.code != "hook_failed":
            return
        reason = SECRETS.redact(f"{fault.where}: {fault.reason}")
        self.bundles.disable(
            loaded, BundleFault(bundle=fault.bundle, code=fault.code, file=fault.file, line=fault.line, reason=reason)
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
