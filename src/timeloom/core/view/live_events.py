"""The view of events that reached the newest turn since its model was last asked."""

from typing import Final

import msgspec

from timeloom.core.blocks import ExternalEvent, Feedback, Followup, ModelCalled, Steer
from timeloom.core.ids import TurnId
from timeloom.core.timeline import NO_TURN, Entry
from timeloom.core.view.turn_index import hint

MAX_EVENTS: Final = 8
"""Maximum number of events, the newest. The turn contains them in full; this list is a reminder in the tail."""


class LiveEvent(msgspec.Struct, frozen=True):
    """An event: its kind, time, path and the beginning of its text."""

    kind: str
    ts: str
    path: str
    hint: str


class LiveEventsView(msgspec.Struct):
    """The events that no request has included yet, newest last; `earlier` counts older events of the turn."""

    turn_id: TurnId = NO_TURN
    events: list[LiveEvent] = []
    earlier: int = 0

    def add(self, entry: Entry) -> None:
        """Fold in the next entry."""
        if isinstance(entry.block, Feedback):
            # Feedback may belong to an earlier turn and must not reset the current one.
            return
        if entry.turn_id not in (NO_TURN, self.turn_id):
            self.turn_id, self.events, self.earlier = entry.turn_id, [], 0
        match entry.block:
            case Followup(text=text):
                self._keep(LiveEvent("followup", entry.ts, entry.path, hint(text)))
            case Steer(text=text):
                self._keep(LiveEvent("steer", entry.ts, entry.path, hint(text) or "(stop)"))
            case ExternalEvent(kind=kind, text=text):
                self._keep(LiveEvent(kind, entry.ts, entry.path, hint(text)))
            case ModelCalled(purpose="decision"):
                self.earlier += len(self.events)
                self.events = []
            case _:
                pass

    def _keep(self, event: LiveEvent) -> None:
        self.events.append(event)
        if len(self.events) > MAX_EVENTS:
            del self.events[0]
            self.earlier += 1
