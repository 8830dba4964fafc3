"""Returns paths as the prompt of the running turn names them, for texts that a tool records."""

from timeloom.core.ids import TurnId
from timeloom.core.render.editions import renderer_for
from timeloom.core.view.aliases import ConversationNames
from timeloom.core.view.views import Views

FIRST_EDITION_WITH_ALIASES = 2


def shown_path(path: str, views: Views) -> str:
    """Return the logical path; from edition 2 on, with aliases."""
    return renderer_for(views.turns.edition).path(path, views)


def shown_place(place: str, views: Views) -> str:
    """Return the path of a file in OUT_DIR; from edition 2 on, with the alias of its turn, a link to its folder."""
    turn, slash, rest = place.partition("/")
    if not slash or views.turns.edition < FIRST_EDITION_WITH_ALIASES:
        return place
    return f"{ConversationNames(views).turn(TurnId(turn))}/{rest}"
