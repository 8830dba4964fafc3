"""Builds pages of conversations with feedback for the in-memory store."""

from collections.abc import Collection, Iterable

from timeloom.core.view.feedback import FeedbackCounts
from timeloom.ports.feedback import ConversationFeedback, FeedbackPage, FeedbackQuery
from timeloom.ports.reader import ConversationInfo
from timeloom.stores.feedback_rows import FeedbackRow, to_sortable_time
from timeloom.stores.search_terms import clamp_page_size, make_cursor, parse_cursor

FeedbackByConversation = Iterable[tuple[ConversationInfo, Collection[FeedbackRow]]]
"""Conversations with the valid feedback of each."""


def make_feedback_page(query: FeedbackQuery, feedback: FeedbackByConversation) -> FeedbackPage:
    """Return one page of the matching conversations, and the feedback counts of all of them."""
    size = clamp_page_size(query.limit)
    since, until = (to_sortable_time(time) if time else "" for time in (query.since, query.until))
    matching = [
        (info, [one for one in rows if since <= one.at and (not until or one.at < until)])
        for info, rows in feedback
        if info.tenant == query.tenant and query.project in ("", info.project) and query.user in ("", info.user)
    ]
    found = sorted((_count_feedback(info, rows) for info, rows in matching if rows), key=_sort_key, reverse=True)
    if query.cursor:
        cursor = parse_cursor(query.cursor)
        found = [one for one in found if _sort_key(one) < cursor]
    last = found[size - 1] if len(found) > size else None
    return FeedbackPage(
        conversations=tuple(found[:size]),
        total=FeedbackCounts.from_reactions(one.kind for _, rows in matching for one in rows),
        cursor=make_cursor(*_sort_key(last)) if last else "",
    )


def _count_feedback(info: ConversationInfo, rows: Collection[FeedbackRow]) -> ConversationFeedback:
    counts = FeedbackCounts.from_reactions(one.kind for one in rows)
    return ConversationFeedback(info=info, counts=counts, last_ts=max(one.at for one in rows))


def _sort_key(judged: ConversationFeedback) -> tuple[str, str]:
    return judged.last_ts, judged.info.id
