"""Resuming: a session that goes on where a conversation ends, after a turn that a re-run left open was ended."""

from typing import Final

from timeloom.core.blocks import AnyBlock, Titled
from timeloom.core.ids import ConversationId
from timeloom.core.policy.forking import broken_off, is_rerun
from timeloom.core.render.title import first_words
from timeloom.ports.clock import Clock
from timeloom.ports.ids import Ids
from timeloom.ports.store import Store
from timeloom.runtime.hub.events import waits_for
from timeloom.runtime.session.session import HOLDER, Session

LEFT: Final = "the program that ran this again stopped in the middle of it, so that the re-run ends here"

_UNTITLED: Final = "Run again"


async def resume(
    store: Store, conversation: ConversationId, clock: Clock, ids: Ids, *, holder: str = HOLDER
) -> Session:
    """The session of whoever opens the conversation to go on with it, as `Session.resume` gives it.

    A turn of a re-run whose process was killed is over by then: it was run with another model and with recorded
    results, and whoever comes now has neither. One that waits for a person stays as it is, for it is a person who goes
    on with it.
    """
    session = await Session.resume(store, conversation, clock, ids, holder=holder)
    try:
        await _end_rerun(session)
    except BaseException:
        await session.close()
        raise
    return session


async def _end_rerun(session: Session) -> None:
    views = session.views
    progress = views.progress
    if not progress.running or waits_for(progress):
        return
    turn = await session.entries(list(views.turns.turns[progress.turn_id].seqs()))
    if is_rerun(turn):
        await session.append([*broken_off(turn, LEFT), *_title(session)], progress.turn_id)


def _title(session: Session) -> list[AnyBlock]:
    """A title for a conversation without one, so that no model is asked for it."""
    known = session.views.conversation
    return [] if known.title or known.erased else [Titled(text=first_words(session.opening) or _UNTITLED)]
