"""Renders the uncached end of a prompt: the current turn, the sources and the facts of the round."""

from bisect import bisect_right
from typing import Final

from timeloom.core.ids import TurnId
from timeloom.core.paths import TurnIndexPath
from timeloom.core.render.facts import RoundFacts
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.render.names import Names
from timeloom.core.render.section import join_sections
from timeloom.core.render.v2.tail.announce import announce_section
from timeloom.core.render.v2.tail.sources_section import sources_section
from timeloom.core.view.context.visible import StubKind, VisibleView
from timeloom.core.view.views import Views


def tail_text(this: RoundFacts, views: Views, names: Names, sources: str | None = None) -> str:
    """Return the text after the cacheable part in this round.

    The caller must store it, because it cannot be rebuilt from the log alone. `sources` is the section of the sources
    if the caller has already rendered it.
    """
    if sources is None:
        sources = sources_section(views.sources.pool, names)
    sections = (current_turn_section(views, names), sources, announce_section(this, views, names))
    return join_sections(*sections)


def current_turn_section(views: Views, names: Names, place: str = "") -> str:
    """Return the line that says where the current turn begins; empty before the first turn.

    `place` names a beginning that is in sight; by default the header of the turn. A heading directly before the
    turn's entries would have to move when the next turn begins.
    """
    turn = views.turns.newest
    if not turn:
        return ""
    alias, first = names.turn(turn), views.turns.turns[turn].spans[0][0]
    head = f"[CURRENT TURN {alias}]"
    if views.visible.shown.get(first, views) is None:
        return f"{head} {place or f'everything from [TURN {alias}] on, above'}\n"
    read = f"react.read({json_line([names.path(_first_path(turn, views))])})"
    return f"{head} its beginning is {_PLACES[_cover_of(first, views.visible)]}; read it with {read}\n"


_PLACES: Final[dict[StubKind | None, str]] = {
    "summary": "in the summary above",
    "pruned": "shortened above",
    "hidden": "hidden above",
    None: "no longer shown",
}


def _first_path(turn: TurnId, views: Views) -> str:
    """Return the path of the message that began the turn; of a turn without one, the path of its index."""
    prompt = f"ar:{turn}.user.prompt"
    return prompt if prompt in views.visible.at_path else str(TurnIndexPath(turn))


def _cover_of(seq: int, visible: VisibleView) -> StubKind | None:
    """Return the kind of the stub that stands for an entry; None if the prompt shows nothing in its place.

    A stub stands at the first entry that it covers, so only entries that a pin kept can stand in between.
    """
    runs = visible.runs
    for at in range(bisect_right(runs.firsts, seq) - 1, -1, -1):
        for place in range(min(runs.lasts[at], seq), runs.firsts[at] - 1, -1):
            if place not in visible.kept:
                stub = visible.stubs.get(place)
                return stub.kind if stub and (place == seq or stub.kind != "hidden") else None
    return None
