"""Opens conversations for the hub of a server or an agent with the configured model and tools."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from timeloom.agent.turn_builder import TurnRunnerBuilder
from timeloom.app import NO_SIDE_MODELS, AgentSettings, SideModels, default_tools
from timeloom.core.blocks import ConversationStarted
from timeloom.core.ids import ConversationId
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.core.timeline import Entry
from timeloom.ports.clock import Clock
from timeloom.ports.ids import Ids
from timeloom.ports.model import Model
from timeloom.ports.store import Store
from timeloom.runtime.session.resume import resume_session
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.tools.registry import ToolRegistry

if TYPE_CHECKING:
    # Only the server re-runs conversations; an agent starts faster without it, and without bundles.
    from timeloom.bundles.registry import BundleRegistry
    from timeloom.runtime.rerun.rerun import TurnRunnerFactory

LEASE_HOLDER: Final = "timeloom serve"
"""The lease holder of conversations that a server has open."""


class ConversationObserver(Protocol):
    """Receives the deltas and entries of all open conversations."""

    def on_delta(self, delta: LiveDelta, /) -> None: ...

    def on_entry(self, entry: Entry, /) -> None: ...


EntryListenerFactory = Callable[[ConversationId], Callable[[Entry], None]]
"""Creates a listener for the entries of each opened conversation."""


@dataclass(frozen=True, kw_only=True)
class ConversationFactory:
    """Opens and resumes conversations of one store."""

    store: Store
    model: Model
    setting: AgentSettings
    clock: Clock
    ids: Ids
    tools: ToolRegistry | None = None
    holder: str = LEASE_HOLDER
    """The lease holder that other processes see."""
    side: SideModels = NO_SIDE_MODELS
    bundles: "BundleRegistry | None" = None
    """The bundles to which conversations may belong."""
    observers: list[ConversationObserver] = field(default_factory=list[ConversationObserver])
    """They receive the events of conversations that open after they were added."""
    make_entry_listeners: list[EntryListenerFactory] = field(default_factory=list[EntryListenerFactory])

    @cached_property
    def builder(self) -> TurnRunnerBuilder:
        """The builder of the turn runners of all conversations."""
        tools = default_tools(self.setting) if self.tools is None else self.tools
        return TurnRunnerBuilder(self.store, self.setting, tools, self.bundles)

    def prepare(self) -> None:
        """Load the shared parts now, so that the first conversation does not wait for the price table."""
        self.builder.share(self.model).rates()

    async def __call__(
        self, conversation: ConversationId, header: ConversationStarted | None, hear: Callable[[LiveDelta], None]
    ) -> TurnRunner:
        if header:
            await self.builder.check(header.bundle)
            session = await Session.start_deferred(
                self.store, conversation, header, self.clock, self.ids, holder=self.holder
            )
        else:
            session = await resume_session(self.store, conversation, self.clock, self.ids, holder=self.holder)
        try:
            await self.builder.check(session.caller.bundle)
            return self.builder.build(session, self.model, self._attach_observers(session, hear), self.side)
        except BaseException:
            await session.close()
            raise

    def rerun_opener(self, model: Model, summary: Model | None = None) -> "TurnRunnerFactory":
        """Return a function that opens re-runs with that model; observers receive their events too."""

        def open_turns(session: Session, _: Path) -> TurnRunner:
            hear = self._attach_observers(session, lambda _: None)
            return self.builder.build(session, model, hear, SideModels(summary=summary), runs_workflow=False)

        return open_turns

    def _attach_observers(self, session: Session, hear: Callable[[LiveDelta], None]) -> Callable[[LiveDelta], None]:
        for observer in self.observers:
            session.listen(observer.on_entry)
            hear = _combine_sinks(hear, observer.on_delta)
        for make_entry_listener in self.make_entry_listeners:
            session.listen(make_entry_listener(session.conversation))
        return hear


def _combine_sinks(
    first: Callable[[LiveDelta], None], second: Callable[[LiveDelta], None]
) -> Callable[[LiveDelta], None]:
    def hear(delta: LiveDelta) -> None:
        first(delta)
        second(delta)

    return hear
