"""The feedback port: lists conversations with feedback and counts the reactions."""

from typing import Protocol

import msgspec

from timeloom.core.view.feedback import FeedbackCounts
from timeloom.ports.reader import ConversationInfo


class FeedbackQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Selects conversations by owner and by the time of their feedback; empty fields, except the tenant, match all."""

    tenant: str
    project: str = ""
    user: str = ""
    since: str = ""
    """Start of the period, inclusive, in the timestamp format of entries."""
    until: str = ""
    """End of the period, exclusive."""
    cursor: str = ""
    limit: int = 50


class ConversationFeedback(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, and the counts of its current feedback from the requested period."""

    info: ConversationInfo
    counts: FeedbackCounts
    last_ts: str
    """The time of its newest feedback."""


class FeedbackPage(msgspec.Struct, frozen=True, kw_only=True):
    """Conversations with the newest feedback first; `cursor` requests the next page and is empty at the end."""

    conversations: tuple[ConversationFeedback, ...]
    total: FeedbackCounts
    """The counts over all matching conversations, on all pages."""
    cursor: str = ""


class FeedbackReader(Protocol):
    """Returns the feedback of all conversations without reading their entries."""

    async def list_feedback(self, query: FeedbackQuery) -> FeedbackPage:
        """Return one page of the conversations with feedback in that period.

        For each turn, a person's newest feedback counts, and empty feedback removes it. Machine feedback is added.
        Feedback that a fork copied counts only in the conversation where it was given.
        """
        ...
