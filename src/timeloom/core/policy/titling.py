"""Titling: whether a conversation is to be given a title now."""

from timeloom.core.ids import TurnId
from timeloom.core.view.views import Views


def wants_title(views: Views) -> bool:
    """Whether there is none, and the newest turn came to an end that says something of what the user wanted."""
    conversation = views.conversation
    newest = views.turns.turns.get(views.turns.newest)
    ended = newest is not None and newest.ended not in (None, "runtime_error")
    return ended and not conversation.title and not conversation.erased


def first_turn(views: Views) -> TurnId | None:
    """The first turn in which a user said something."""
    return next((turn for turn in views.turns.turns if views.paths.find(f"ar:{turn}.user.prompt")), None)
