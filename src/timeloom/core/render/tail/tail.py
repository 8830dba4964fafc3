"""The tail of a prompt: which turn is current, the sources and ANNOUNCE; last, never cached, and bounded."""

from timeloom.core.render.tail.announce import Round, announce
from timeloom.core.render.tail.sources_section import sources_section
from timeloom.core.view.views import Views


def tail_text(this: Round, views: Views, sources: str | None = None) -> str:
    """What follows the cacheable part in this round; the caller keeps it, for it cannot be made from the log alone.

    `sources` is the section SOURCES POOL where the caller has it already.
    """
    if sources is None:
        sources = sources_section(views.sources.pool)
    return joined(current_turn(views), sources, announce(this, views))


def current_turn(views: Views) -> str:
    """The section CURRENT TURN; empty before the first turn."""
    # The turn's own blocks stand above: a title in front of them would have to move when the next turn begins.
    turn = views.turns.newest
    return f"CURRENT TURN\n{turn}: everything from [TURN {turn}] on, above.\n" if turn else ""


def joined(*sections: str) -> str:
    """The sections that say something, one after the other."""
    return "\n".join(section for section in sections if section)
