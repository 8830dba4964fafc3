"""Builds pages of conversations with feedback for the in-memory store."""

from collections.abc import Collection, Iterable

from timeloom.core.view.feedback import FeedbackCounts
from timeloom.ports.feedback import FeedbackPage, FeedbackQuery, JudgedConversation
from timeloom.ports.reader import ConversationInfo
from timeloom.stores.feedback_rows import Judgement, sortable
from timeloom.stores.search_terms import cursor_at, page_size, read_cursor

Judgements = Iterable[tuple[ConversationInfo, Collection[Judgement]]]
"""Conversations with the valid feedback of each."""


def judged_page(query: FeedbackQuery, judgements: Judgements) -> FeedbackPage:
    """Return one page of the matching conversations, and the feedback counts of all of them."""
    size = page_size(query.limit)
    since, until = (sortable(time) if time else "" for time in (query.since, query.until))
    matching = [
        (info, [one for one in said if since <= one.at and (not until or one.at < until)])
        for info, said in judgements
        if info.tenant == query.tenant and query.project in ("", info.project) and query.user in ("", info.user)
    ]
    found = sorted((_judged(info, said) for info, said in matching if said), key=_order, reverse=True)
    if query.cursor:
        cursor = read_cursor(query.cursor)
        found = [one for one in found if _order(one) < cursor]
    last = found[size - 1] if len(found) > size else None
    return FeedbackPage(
        conversations=tuple(found[:size]),
        total=FeedbackCounts.of(one.said for _, said in matching for one in said),
        cursor=cursor_at(*_order(last)) if last else "",
    )


def _judged(info: ConversationInfo, said: Collection[Judgement]) -> JudgedConversation:
    counts = FeedbackCounts.of(one.said for one in said)
    return JudgedConversation(info=info, counts=counts, last_ts=max(one.at for one in said))


def _order(judged: JudgedConversation) -> tuple[str, str]:
    return judged.last_ts, judged.info.id
