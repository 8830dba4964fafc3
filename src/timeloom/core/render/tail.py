"""The tail of a prompt: which turn is current, the sources and ANNOUNCE; last, never cached, and bounded."""

from timeloom.core.render.announce import Round, announce
from timeloom.core.render.live_events import LiveEvents
from timeloom.core.render.sources_section import sources_section
from timeloom.core.view.views import Views


def tail_text(this: Round, views: Views, live: LiveEvents) -> str:
    """What follows the cacheable part in this round; the caller keeps it, for it cannot be made from the log alone."""
    # The turn's own blocks stand above: a title in front of them would have to move when the next turn begins.
    turn = views.turns.newest
    current = f"CURRENT TURN\n{turn}: everything from [TURN {turn}] on, above.\n" if turn else ""
    parts = (current, sources_section(views.sources.pool), announce(this, views, live))
    return "\n".join(part for part in parts if part)
