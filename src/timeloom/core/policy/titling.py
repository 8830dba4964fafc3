"""Decides when a conversation needs a generated title."""

from timeloom.core.ids import TurnId
from timeloom.core.view.views import Views


def needs_title(views: Views) -> bool:
    """Whether the conversation needs a title now.

    It does if it has no title, nothing of it was erased, and its newest turn ended other than with a runtime error.
    """
    conversation = views.conversation
    newest = views.turns.turns.get(views.turns.newest)
    ended = newest is not None and newest.ended not in (None, "runtime_error")
    return ended and not conversation.title and not conversation.erased


def find_first_turn(views: Views) -> TurnId | None:
    """Return the first turn that has a user message."""
    return next((turn for turn in views.turns.turns if views.paths.find(f"ar:{turn}.user.prompt")), None)
