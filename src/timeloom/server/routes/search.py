"""The search route: finds messages in the caller's conversations."""

from typing import Annotated

import msgspec
from msgspec import Meta

from timeloom.ports.reader import ConversationInfo
from timeloom.runtime.read.search import MessageHit, find_messages
from timeloom.server.request_context import RequestContext
from timeloom.server.routes.conversations import ListQuery, find_conversations


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words to search for, and the maximum number of hits per conversation."""

    words: Annotated[str, Meta(min_length=1)]
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=50)] = 20
    hits: Annotated[int, Meta(ge=1, le=20)] = 3
    user: str = ""
    """The owner; empty means the caller. Only admins may search another user's, or with `*` those of all users."""


class ConversationMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that contains all of the words, and its newest messages with any of them."""

    conversation: ConversationInfo
    hits: tuple[MessageHit, ...]


class SearchPage(msgspec.Struct, frozen=True, kw_only=True):
    """Matches, newest first. `cursor` requests the next page and is empty on the last one."""

    found: tuple[ConversationMatch, ...]
    cursor: str = ""


async def search_conversations(context: RequestContext, query: SearchQuery) -> SearchPage:
    """Search the caller's conversations for all of the words and return matching messages."""
    store = context.services.store
    list_query = ListQuery(words=query.words, cursor=query.cursor, limit=query.limit, user=query.user)
    page = await find_conversations(context, list_query)
    matches = [
        ConversationMatch(conversation=info, hits=await find_messages(store, info, query.words, query.hits))
        for info in page.conversations
    ]
    return SearchPage(found=tuple(matches), cursor=page.cursor)
