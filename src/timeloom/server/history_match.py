"""Finds the conversation of clients that resend all earlier messages instead of a conversation id."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.render.foreign_text.fence import fence

MAX_POSITIONS: Final = 10_000
"""Maximum number of positions kept. Without one, a client gets a new conversation that quotes its history."""

HISTORY_HEADING: Final = "Earlier messages, as the client sent them:"
MESSAGE_HEADING: Final = "The message now:"
USER_ROLE: Final = "user"


class HistoryMessage(msgspec.Struct, frozen=True):
    """A message as the client sent it."""

    role: str
    text: str


class HistoryPosition(msgspec.Struct, frozen=True):
    """A conversation and the last turn that a client knows of it."""

    conversation: ConversationId
    turn: TurnId


class HistoryIndex:
    """Maps message histories to conversations, in memory only: after a restart clients get a new conversation."""

    def __init__(self, max_positions: int = MAX_POSITIONS) -> None:
        self._max_positions = max_positions
        self._positions: OrderedDict[bytes, HistoryPosition] = OrderedDict()

    def remember(self, owner: Sequence[str], messages: Sequence[HistoryMessage], position: HistoryPosition) -> None:
        """Remember the position of clients that send this history."""
        self._positions[_key(owner, messages)] = position
        self._positions.move_to_end(_key(owner, messages))
        if len(self._positions) > self._max_positions:
            self._positions.popitem(last=False)

    def pop(self, owner: Sequence[str], messages: Sequence[HistoryMessage]) -> HistoryPosition | None:
        """Return and remove the position for this history; None if it is unknown.

        Only the first client continues that conversation. Another one with the same history is a branch and gets a
        new conversation.
        """
        return self._positions.pop(_key(owner, messages), None) if messages else None


def with_history(history: Sequence[HistoryMessage], message: str) -> str:
    """Return the first message of a new conversation, with the client's earlier messages quoted before it."""
    if not history:
        return message
    quoted = "\n".join(fence(f"{line.role}: {line.text}") for line in history)
    return f"{HISTORY_HEADING}\n\n{quoted}\n\n{MESSAGE_HEADING}\n\n{message}"


def quoted_roles(history: Sequence[HistoryMessage]) -> tuple[str, ...]:
    """Return the roles of the quoted messages that the user did not write, each once."""
    return tuple(sorted({line.role for line in history} - {USER_ROLE}))


def _key(owner: Sequence[str], messages: Sequence[HistoryMessage]) -> bytes:
    # Clients trim the messages that they show.
    normalized = [(line.role, line.text.strip()) for line in messages]
    return hashlib.sha256(msgspec.json.encode((list(owner), normalized))).digest()
