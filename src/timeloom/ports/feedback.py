"""The feedback port: which conversations people and machines have judged, and how."""

from typing import Protocol

import msgspec

from timeloom.core.view.feedback import FeedbackCounts
from timeloom.ports.reader import ConversationInfo


class FeedbackQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whose conversations, and when their feedback was given; what is empty does not narrow, except the tenant."""

    tenant: str
    project: str = ""
    user: str = ""
    since: str = ""
    """A time that counts itself, as entries carry it."""
    until: str = ""
    """A time that does not count itself any more."""
    cursor: str = ""
    limit: int = 50


class JudgedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, and what stands of the feedback that it got in the time that was asked for."""

    info: ConversationInfo
    counts: FeedbackCounts
    last_ts: str
    """When the newest of it was given."""


class FeedbackPage(msgspec.Struct, frozen=True, kw_only=True):
    """Those with the newest feedback first; `cursor` asks for what follows and is empty at the end."""

    conversations: tuple[JudgedConversation, ...]
    total: FeedbackCounts
    """What stands in all that match, on whatever page."""
    cursor: str = ""


class Judged(Protocol):
    """Knows the feedback of all conversations without reading them."""

    async def judged(self, query: FeedbackQuery) -> FeedbackPage:
        """One page of the conversations with feedback in that time.

        Of a turn the newest word of a person stands, and one that says nothing takes it back; what machines say is
        added. What a fork has copied is counted where it was given, and nowhere else.
        """
        ...
