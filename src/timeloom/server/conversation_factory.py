"""Opens conversations for the server's hub with the configured model and tools."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Protocol

from timeloom.app import NO_MODELS, Setting, Shared, SideModels, make_shared, make_turns
from timeloom.core.blocks import ConversationStarted
from timeloom.core.ids import ConversationId
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.core.timeline import Entry
from timeloom.ports.clock import Clock
from timeloom.ports.ids import Ids
from timeloom.ports.model import Model
from timeloom.ports.store import Store
from timeloom.runtime.rerun.rerun import OpenTurns
from timeloom.runtime.session.resume import resume
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import Turns
from timeloom.tools.registry import ToolRegistry

HOLDER: Final = "timeloom serve"
"""The lease holder that other processes see for conversations that are open here."""


class Observer(Protocol):
    """Receives the deltas and entries of all open conversations."""

    def delta(self, delta: LiveDelta, /) -> None: ...

    def entry(self, entry: Entry, /) -> None: ...


@dataclass(frozen=True, kw_only=True)
class ServerOpening:
    """Opens and resumes conversations of one store."""

    store: Store
    model: Model
    setting: Setting
    clock: Clock
    ids: Ids
    tools: ToolRegistry | None = None
    side: SideModels = NO_MODELS
    observer: Observer | None = None
    listening: Callable[[ConversationId], Callable[[Entry], None]] | None = None
    """Creates a listener for the entries of each opened conversation."""

    @cached_property
    def shared(self) -> Shared:
        """The parts that all conversations share."""
        return make_shared(self.model, self.setting, self.tools)

    def prepare(self) -> None:
        """Load the shared parts now, so that the first conversation does not wait for the price table."""
        self.shared.rates()

    async def __call__(
        self, conversation: ConversationId, header: ConversationStarted | None, hear: Callable[[LiveDelta], None]
    ) -> Turns:
        if header:
            session = await Session.begin(self.store, conversation, header, self.clock, self.ids, holder=HOLDER)
        else:
            session = await resume(self.store, conversation, self.clock, self.ids, holder=HOLDER)
        try:
            return make_turns(session, self.model, self.setting, self._heard(session, hear), self.shared, self.side)
        except BaseException:
            await session.close()
            raise

    def again(self, model: Model, summary: Model | None = None) -> OpenTurns:
        """Return a function that opens re-runs with that model; observers receive their events too."""

        def opened(session: Session, _: Path) -> Turns:
            hear = self._heard(session, lambda _: None)
            return make_turns(session, model, self.setting, hear, self.tools, SideModels(summary=summary))

        return opened

    def _heard(self, session: Session, hear: Callable[[LiveDelta], None]) -> Callable[[LiveDelta], None]:
        if self.observer:
            session.listen(self.observer.entry)
            hear = _both(hear, self.observer.delta)
        if self.listening:
            session.listen(self.listening(session.conversation))
        return hear


def _both(first: Callable[[LiveDelta], None], second: Callable[[LiveDelta], None]) -> Callable[[LiveDelta], None]:
    def hear(delta: LiveDelta) -> None:
        first(delta)
        second(delta)

    return hear
