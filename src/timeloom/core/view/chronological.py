"""Restored order: what happened in the order in which it began, not in which it was stored."""

from collections.abc import Iterable

from timeloom.core.blocks import Attachment, AttachmentMeta, Digest, ExternalEvent, Followup, Steer, TurnStarted
from timeloom.core.ids import MessageId, TurnId
from timeloom.core.paths import EventAttachmentPath, parse
from timeloom.core.timeline import Entry, microseconds_between


def restored(entries: Iterable[Entry]) -> list[Entry]:
    """The entries of whole turns, with each event where it began by its own word, and its attachments behind it.

    An event stays within its turn, behind what opened it; one that says that it begins after it was stored is not
    believed. Everything else keeps its order.
    """
    times = _Times()
    found = [(times.began_us(entry), entry.seq, entry) for entry in entries]
    return [entry for *_, entry in sorted(found, key=lambda one: one[:2])]


class _Times:
    """When entries began, counted from the first of them."""

    def __init__(self) -> None:
        self._first = ""
        self._latest_us = 0
        self._opened: dict[TurnId, int] = {}
        self._events: dict[MessageId, int] = {}

    def began_us(self, entry: Entry) -> int:
        self._first = self._first or entry.ts
        # A clock that went back does not bring what came later before what came first.
        self._latest_us = max(self._latest_us, microseconds_between(self._first, entry.ts))
        match entry.block:
            case TurnStarted():
                self._opened[entry.turn_id] = self._latest_us
            case Followup() | Steer() | ExternalEvent() as event:
                self._events[event.message_id] = self._of_event(entry.turn_id, event.started_ts)
                return self._events[event.message_id]
            case Attachment(artifact_path=path) | AttachmentMeta(digest=Digest(artifact_path=path)):
                return self._of_attachment(path)
            case _:
                pass
        return self._latest_us

    def _of_event(self, turn: TurnId, started_ts: str) -> int:
        if not started_ts:
            return self._latest_us
        began_us = max(self._opened.get(turn, self._latest_us), microseconds_between(self._first, started_ts))
        return min(self._latest_us, began_us)

    def _of_attachment(self, path: str) -> int:
        match parse(path):
            case EventAttachmentPath(message=message):
                return self._events.get(MessageId(message), self._latest_us)
            case _:
                return self._latest_us
