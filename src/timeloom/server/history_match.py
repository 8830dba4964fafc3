"""Finds the conversation of clients that resend all earlier messages instead of a conversation id."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.render.foreign_text.fence import fence

MOST: Final = 10_000
"""Maximum number of positions kept. Without one, a client gets a new conversation that quotes its history."""

BEFORE: Final = "Earlier messages, as the client sent them:"
NOW: Final = "The message now:"


class Line(msgspec.Struct, frozen=True):
    """A message as the client sent it."""

    role: str
    text: str


class Spot(msgspec.Struct, frozen=True):
    """A conversation and the last turn that a client knows of it."""

    conversation: ConversationId
    turn: TurnId


class Histories:
    """Maps message histories to conversations, in memory only: after a restart clients get a new conversation."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._spots: OrderedDict[bytes, Spot] = OrderedDict()

    def keep(self, owner: Sequence[str], lines: Sequence[Line], spot: Spot) -> None:
        """Remember the position of clients that send this history."""
        self._spots[_key(owner, lines)] = spot
        self._spots.move_to_end(_key(owner, lines))
        if len(self._spots) > self._most:
            self._spots.popitem(last=False)

    def take(self, owner: Sequence[str], lines: Sequence[Line]) -> Spot | None:
        """Return and remove the position for this history; None if it is unknown.

        Only the first client continues that conversation. Another one with the same history is a branch and gets a
        new conversation.
        """
        return self._spots.pop(_key(owner, lines), None) if lines else None


def with_history(lines: Sequence[Line], message: str) -> str:
    """Return the first message of a new conversation, with the client's earlier messages quoted before it."""
    if not lines:
        return message
    said = "\n".join(fence(f"{line.role}: {line.text}") for line in lines)
    return f"{BEFORE}\n\n{said}\n\n{NOW}\n\n{message}"


def _key(owner: Sequence[str], lines: Sequence[Line]) -> bytes:
    # Clients trim the messages that they show.
    said = [(line.role, line.text.strip()) for line in lines]
    return hashlib.sha256(msgspec.json.encode((list(owner), said))).digest()
