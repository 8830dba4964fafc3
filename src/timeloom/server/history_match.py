"""Histories: which conversation a client goes on with that sends all earlier messages again instead of a name."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.render.foreign_text.fence import fence

MOST: Final = 10_000
"""How many are remembered. Whoever is forgotten begins a new conversation, which quotes the earlier messages."""

BEFORE: Final = "Earlier messages, as the client sent them:"
NOW: Final = "The message now:"


class Line(msgspec.Struct, frozen=True):
    """A message of a client: who said it, as the client has it, and what."""

    role: str
    text: str


class Spot(msgspec.Struct, frozen=True):
    """A conversation at the end of one of its turns."""

    conversation: ConversationId
    turn: TurnId


class Histories:
    """Remembers what was said up to where; only as long as the server runs, for nothing depends on it."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._spots: OrderedDict[bytes, Spot] = OrderedDict()

    def keep(self, owner: Sequence[str], lines: Sequence[Line], spot: Spot) -> None:
        """Whoever sends these lines is there."""
        self._spots[_key(owner, lines)] = spot
        self._spots.move_to_end(_key(owner, lines))
        if len(self._spots) > self._most:
            self._spots.popitem(last=False)

    def take(self, owner: Sequence[str], lines: Sequence[Line]) -> Spot | None:
        """Where somebody is who sends these lines; None where that is not known.

        Only the first who goes on from there is told: whoever else sends the same lines is at a branch of its own.
        """
        return self._spots.pop(_key(owner, lines), None) if lines else None


def with_history(lines: Sequence[Line], message: str) -> str:
    """The first message of a conversation that began elsewhere: what was said there is quoted, not said again."""
    if not lines:
        return message
    said = "\n".join(fence(f"{line.role}: {line.text}") for line in lines)
    return f"{BEFORE}\n\n{said}\n\n{NOW}\n\n{message}"


def _key(owner: Sequence[str], lines: Sequence[Line]) -> bytes:
    # Clients trim what they show.
    said = [(line.role, line.text.strip()) for line in lines]
    return hashlib.sha256(msgspec.json.encode((list(owner), said))).digest()
