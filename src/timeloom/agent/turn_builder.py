"""Builds the turn runners of conversations: each with the tools, rules and workflow of its bundle."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from timeloom.agent.bundle_parts import BundleParts
from timeloom.app import NO_SIDE_MODELS, AgentSettings, SharedParts, SideModels, build_shared_parts, build_turn_runner
from timeloom.core.codes import CodedError
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.ports.model import Model
from timeloom.ports.store import Store
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.tools.registry import ToolRegistry

if TYPE_CHECKING:
    # An agent without bundles starts faster without them.
    from timeloom.agent.bundled_turns import BundledTurns
    from timeloom.bundles.registry import BundleRegistry


class TurnRunnerBuilder:
    """Builds turn runners from the settings and tools of a program and its bundles.

    A conversation without a bundle has the program's own tools and rules. One whose bundle is not loaded here, or is
    disabled, is refused.
    """

    def __init__(
        self, store: Store, settings: AgentSettings, tools: ToolRegistry, bundles: "BundleRegistry | None" = None
    ) -> None:
        self._plain = BundleParts(loaded=None, settings=settings, registry=tools)
        self._bundled = _open_bundled_turns(store, self._plain, bundles) if bundles and bundles.names else None

    async def check(self, bundle: str) -> None:
        """Load changed files of the bundle; raise if it takes no messages here."""
        if bundle and self._bundled:
            await self._bundled.bundles.refresh(bundle)
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
        if not self._bundled or not parts.loaded:
            return turns
        turns = self._bundled.guard(turns, parts.loaded)
        return self._bundled.attach(turns, parts, model, on_delta, side) if runs_workflow else turns

    def _find_parts(self, bundle: str) -> BundleParts:
        if not bundle:
            return self._plain
        if self._bundled is None:
            raise CodedError(
                "bundle_missing",
                f"the conversation belongs to the bundle {bundle[:60]!r}, and no bundle is loaded here; start with "
                "--bundle to continue it",
            )
        return self._bundled.find(bundle)


def _open_bundled_turns(store: Store, plain: BundleParts, bundles: "BundleRegistry") -> "BundledTurns":
    # Lazy: an agent without bundles starts faster without them.
    from timeloom.agent.bundled_turns import BundledTurns  # noqa: PLC0415

    return BundledTurns(store, plain, bundles)
