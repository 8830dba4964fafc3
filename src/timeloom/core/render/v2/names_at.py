"""The aliases that are known at one entry, so that an entry renders alike however far ahead the views are."""

from timeloom.core.ids import CallId, TurnId
from timeloom.core.paths import CallTextPath, PathError, ToolPath, TurnForm, parse_long
from timeloom.core.view.aliases import ConversationNames
from timeloom.core.view.views import Views


class NamesAt:
    """The aliases of the turns and calls that began at or before one entry; the ids of all others."""

    def __init__(self, views: Views, seq: int) -> None:
        self._views = views
        self._seq = seq
        self._names = ConversationNames(views)

    def turn(self, turn_id: TurnId) -> str:
        """Return the alias of the turn; its id if it began later, or if the conversation has no such turn."""
        return self._names.turn(turn_id) if self._has_turn(turn_id) else turn_id

    def call(self, turn_id: TurnId, call_id: CallId) -> str:
        """Return the alias of the call; its id if it was recorded later, or if the turn has no such call."""
        return self._names.call(turn_id, call_id) if self._has_call(turn_id, call_id) else call_id

    def path(self, path: str) -> str:
        """Return the path with aliases in place of its ids; unchanged if one of these is not known at the entry."""
        try:
            form = parse_long(path)
        except PathError:
            return path
        if not isinstance(form, TurnForm) or not self._has_turn(form.turn):
            return path
        if isinstance(form, ToolPath | CallTextPath) and not self._has_call(form.turn, form.call):
            return path
        return self._names.parsed_path(path, form)

    def _has_turn(self, turn_id: TurnId) -> bool:
        turn = self._views.turns.turns.get(turn_id)
        return turn is not None and turn.spans[0][0] <= self._seq

    def _has_call(self, turn_id: TurnId, call_id: CallId) -> bool:
        call = self._views.calls.get(turn_id, call_id)
        return call is not None and call.call_seq is not None and call.call_seq <= self._seq
