"""The names under which a prompt shows the turns, calls and paths of its conversation."""

from typing import Protocol

from timeloom.core.ids import CallId, TurnId


class Names(Protocol):
    """The short aliases of a conversation's turns and calls. `ConversationNames` implements it over the views."""

    def turn(self, turn_id: TurnId) -> str:
        """Return `t12` for the twelfth turn; the id if it is no turn of this conversation."""
        ...

    def call(self, turn_id: TurnId, call_id: CallId) -> str:
        """Return `t12.3` for the third call of the twelfth turn; the id of the call if it is unknown."""
        ...

    def path(self, path: str) -> str:
        """Return the path with aliases in place of the ids of this conversation; unchanged if it has none."""
        ...
