"""Opens a session of a stored conversation after ending a turn that an interrupted re-run left open."""

from typing import Final

from timeloom.core.blocks import AnyBlock, Titled
from timeloom.core.ids import ConversationId
from timeloom.core.policy.forking import end_stopped_rerun, is_rerun
from timeloom.core.render.title import title_from_words
from timeloom.core.view.progress import pending_approvals
from timeloom.ports.clock import Clock
from timeloom.ports.ids import Ids
from timeloom.ports.store import Store
from timeloom.runtime.session.session import HOLDER, Session

RERUN_STOPPED_TEXT: Final = "the program that ran this again stopped in the middle of it, so that the re-run ends here"

_UNTITLED: Final = "Run again"


async def resume_session(
    store: Store, conversation: ConversationId, clock: Clock, ids: Ids, *, holder: str = HOLDER
) -> Session:
    """Return a session of the stored conversation, as `Session.resume` does.

    An open turn of a re-run whose process was killed is ended first. It ran with another model and with recorded
    results, and the new session has neither. A turn that waits for a person's decision stays open.
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
    if not progress.running or pending_approvals(progress):
        return
    turn = await session.entries(list(views.turns.turns[progress.turn_id].seqs()))
    if is_rerun(turn):
        await session.append(
            [*end_stopped_rerun(turn, RERUN_STOPPED_TEXT), *_fallback_title(session)], progress.turn_id
        )


def _fallback_title(session: Session) -> list[AnyBlock]:
    """Return a title for an untitled conversation, so that no model is asked for one."""
    known = session.views.conversation
    return (
        [] if known.title or known.erased else [Titled(text=title_from_words(session.first_user_message) or _UNTITLED)]
    )
