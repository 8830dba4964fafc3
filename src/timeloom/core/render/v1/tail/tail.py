"""Renders the uncached end of a prompt: the current turn, the sources and ANNOUNCE."""

from timeloom.core.render.section import join_sections
from timeloom.core.render.v1.tail.announce import RoundFacts, announce_section
from timeloom.core.render.v1.tail.sources_section import sources_section
from timeloom.core.view.views import Views


def tail_text(this: RoundFacts, views: Views, sources: str | None = None) -> str:
    """Return the text after the cacheable part in this round.

    The caller must store it, because it cannot be rebuilt from the log alone. `sources` is the SOURCES POOL section if
    the caller has already rendered it.
    """
    if sources is None:
        sources = sources_section(views.sources.pool)
    return join_sections(current_turn_section(views), sources, announce_section(this, views))


def current_turn_section(views: Views) -> str:
    """Return the CURRENT TURN section; empty before the first turn."""
    # A heading directly before the turn's blocks would have to move when the next turn begins.
    turn = views.turns.newest
    return f"CURRENT TURN\n{turn}: everything from [TURN {turn}] on, above.\n" if turn else ""
