"""Opening: how the server's hub opens a conversation, with the model and the tools of its settings."""

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
"""What is told to whoever opens a conversation that is open here."""


class Observer(Protocol):
    """Hears of everything that happens in the conversations that are open here."""

    def delta(self, delta: LiveDelta, /) -> None: ...

    def entry(self, entry: Entry, /) -> None: ...


@dataclass(frozen=True, kw_only=True)
class ServerOpening:
    """Opens conversations of one store."""

    store: Store
    model: Model
    setting: Setting
    clock: Clock
    ids: Ids
    tools: ToolRegistry | None = None
    side: SideModels = NO_MODELS
    observer: Observer | None = None
    listening: Callable[[ConversationId], Callable[[Entry], None]] | None = None
    """Who else hears the entries of a conversation that is opened."""

    @cached_property
    def shared(self) -> Shared:
        """What all conversations share."""
        return make_shared(self.model, self.setting, self.tools)

    def prepare(self) -> None:
        """Makes what they share before the first of them is opened, which would wait for a table of prices."""
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
        """Runs conversations again with that model; whoever hears of the others hears of these."""

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
