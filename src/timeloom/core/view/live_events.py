"""The view of events that reached the newest turn since its model was last asked."""

from typing import ClassVar, Final

import msgspec

from timeloom.core.blocks import AnyBlock, ExternalEvent, Feedback, Followup, ModelCalled, Steer
from timeloom.core.ids import TurnId
from timeloom.core.timeline import NO_TURN, Entry
from timeloom.core.view.block_view import BlockView, Folds, for_all_blocks
from timeloom.core.view.turn_index import hint

MAX_EVENTS: Final = 8
"""Maximum number of events, the newest. The turn contains them in full; this list is a reminder in the tail."""


class LiveEvent(msgspec.Struct, frozen=True):
    """An event: its kind, time, path and the beginning of its text."""

    kind: str
    ts: str
    path: str
    hint: str


class LiveEventsView(BlockView, msgspec.Struct):
    """The events that no request has included yet, newest last; `earlier` counts older events of the turn."""

    turn_id: TurnId = NO_TURN
    events: list[LiveEvent] = []
    earlier: int = 0

    def _follow_turn(self, entry: Entry, _: AnyBlock) -> None:
        if entry.turn_id != self.turn_id and entry.turn_id != NO_TURN:
            self.turn_id, self.events, self.earlier = entry.turn_id, [], 0

    def _add_followup(self, entry: Entry, block: Followup) -> None:
        self._keep(entry, LiveEvent("followup", entry.ts, entry.path, hint(block.text)))

    def _add_steer(self, entry: Entry, block: Steer) -> None:
        self._keep(entry, LiveEvent("steer", entry.ts, entry.path, hint(block.text) or "(stop)"))

    def _add_event(self, entry: Entry, block: ExternalEvent) -> None:
        self._keep(entry, LiveEvent(block.kind, entry.ts, entry.path, hint(block.text)))

    def _add_request(self, entry: Entry, block: ModelCalled) -> None:
        self._follow_turn(entry, block)
        if block.purpose == "decision":
            self.earlier += len(self.events)
            self.events = []

    def _ignore(self, _: Entry, __: Feedback) -> None:
        """Feedback may belong to an earlier turn and must not reset the current one."""

    def _keep(self, entry: Entry, event: LiveEvent) -> None:
        self._follow_turn(entry, entry.block)
        self.events.append(event)
        if len(self.events) > MAX_EVENTS:
            del self.events[0]
            self.earlier += 1

    folds: ClassVar[Folds] = {
        **for_all_blocks(_follow_turn),
        Followup: _add_followup,
        Steer: _add_steer,
        ExternalEvent: _add_event,
        ModelCalled: _add_request,
        Feedback: _ignore,
    }
