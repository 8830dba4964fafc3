"""Sorts entries by the time at which they began instead of the time at which they were stored."""

from collections.abc import Iterable

from timeloom.core.blocks import Attachment, AttachmentMeta, Digest, ExternalEvent, Followup, Steer, TurnStarted
from timeloom.core.ids import MessageId, TurnId
from timeloom.core.paths import EventAttachmentPath, parse_long
from timeloom.core.timeline import Entry, microseconds_between


def sort_chronologically(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries of complete turns, with each event at its stated start time and its attachments after it.

    An event stays within its turn and after the start of the turn. A stated time later than the stored time is ignored.
    All other entries keep their order.
    """
    times = _StartTimes()
    found = [(times.began_us(entry), entry.seq, entry) for entry in entries]
    return [entry for *_, entry in sorted(found, key=lambda one: one[:2])]


class _StartTimes:
    """Start times of entries, in microseconds since the first entry."""

    def __init__(self) -> None:
        self._first = ""
        self._latest_us = 0
        self._opened: dict[TurnId, int] = {}
        self._events: dict[MessageId, int] = {}

    def began_us(self, entry: Entry) -> int:
        self._first = self._first or entry.ts
        # A clock that jumped back must not move later entries before earlier ones.
        self._latest_us = max(self._latest_us, microseconds_between(self._first, entry.ts))
        match entry.block:
            case TurnStarted():
                self._opened[entry.turn_id] = self._latest_us
            case Followup() | Steer() | ExternalEvent() as event:
                self._events[event.message_id] = self._event_start_us(entry.turn_id, event.started_ts)
                return self._events[event.message_id]
            case Attachment(artifact_path=path) | AttachmentMeta(digest=Digest(artifact_path=path)):
                return self._attachment_start_us(path)
            case _:
                pass
        return self._latest_us

    def _event_start_us(self, turn: TurnId, started_ts: str) -> int:
        if not started_ts:
            return self._latest_us
        began_us = max(self._opened.get(turn, self._latest_us), microseconds_between(self._first, started_ts))
        return min(self._latest_us, began_us)

    def _attachment_start_us(self, path: str) -> int:
        match parse_long(path):
            case EventAttachmentPath(message=message):
                return self._events.get(MessageId(message), self._latest_us)
            case _:
                return self._latest_us
