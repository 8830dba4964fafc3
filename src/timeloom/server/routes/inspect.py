"""Routes that inspect conversations: search messages, fetch turns, show prompts."""

from typing import Annotated

import msgspec
from msgspec import Meta

from timeloom.core.codes import CodedError
from timeloom.core.paths import RoundTextPath
from timeloom.core.paths.forms import MAX_NUMBER
from timeloom.core.payload import size_of
from timeloom.core.render.segments import RenderedSegment
from timeloom.core.view.views import Views
from timeloom.ports.reader import ConversationInfo
from timeloom.runtime.read.search import Hit, find_messages
from timeloom.runtime.read.turn_overview import TurnCard, need_turn, turn_cards, turns_after
from timeloom.runtime.replay.replay import ReplayedCall, calls_at, explain
from timeloom.runtime.session.load_views import load_views
from timeloom.server.http.pagination import page_after, page_cursor
from timeloom.server.routes.conversations import ListQuery, list_conversations
from timeloom.server.services import RequestContext


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words to search for, and the maximum number of hits per conversation."""

    words: Annotated[str, Meta(min_length=1)]
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=50)] = 20
    hits: Annotated[int, Meta(ge=1, le=20)] = 3
    user: str = ""
    """The owner; empty means the caller. Only admins may search another user's, or with `*` those of all users."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that contains all of the words, and its newest messages with any of them."""

    conversation: ConversationInfo
    hits: tuple[Hit, ...]


class SearchPage(msgspec.Struct, frozen=True, kw_only=True):
    """Matches, newest first. `cursor` requests the next page and is empty on the last one."""

    found: tuple[Found, ...]
    cursor: str = ""


class FetchBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects a conversation and its turns by id or number; without `turn_ids`, all turns."""

    conversation_id: Annotated[str, Meta(min_length=1, max_length=128)]
    turn_ids: Annotated[tuple[str, ...], Meta(max_length=1000)] | None = None
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class FetchedTurns(msgspec.Struct, frozen=True, kw_only=True):
    """Turns in order. `cursor` requests the next page and is empty on the last one."""

    conversation: ConversationInfo
    turns: tuple[TurnCard, ...]
    cursor: str = ""


class PromptQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects a model request by round, turn (id or number) and attempt. Each defaults to the newest."""

    round: Annotated[int, Meta(ge=0, le=MAX_NUMBER)] | None = None
    turn: str = ""
    attempt: Annotated[int, Meta(ge=0, le=MAX_NUMBER)] = 0


class PromptSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A segment of the prompt: its text, or the type and size of an image or a PDF."""

    text: str
    mime: str
    size_bytes: int
    cache_point: bool


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A model request rebuilt from the log; `call` reports whether it equals the original byte for byte."""

    call: ReplayedCall
    system: str
    segments: tuple[PromptSegment, ...]
    tail: str


async def search_conversations(call: RequestContext, query: SearchQuery) -> SearchPage:
    """Search the caller's conversations for all of the words and return matching messages."""
    store = call.place.store
    asked = ListQuery(words=query.words, cursor=query.cursor, limit=query.limit, user=query.user)
    page = await list_conversations(call, asked)
    found = [
        Found(conversation=info, hits=await find_messages(store, info, query.words, query.hits))
        for info in page.conversations
    ]
    return SearchPage(found=tuple(found), cursor=page.cursor)


async def post_fetch(call: RequestContext, body: FetchBody) -> FetchedTurns:
    """Return the turns of a conversation with their messages, files and feedback."""
    store, info = call.place.store, await call.visible(body.conversation_id, "read")
    views = await load_views(store, info.id)
    wanted = views.turns.turns if body.turn_ids is None else [need_turn(views, turn) for turn in body.turn_ids]
    page, after = turns_after(views, page_after(body.cursor), wanted, body.limit)
    turns = await turn_cards(store, info, views, page)
    return FetchedTurns(conversation=info, turns=turns, cursor=page_cursor(after))


async def get_prompt(call: RequestContext, query: PromptQuery) -> Prompt:
    """Return the prompt of a round, rebuilt from the log. Default: the newest round."""
    store, name = call.place.store, call.conversation.id
    views = await load_views(store, name)
    path = _round_path(views, query)
    calls = await calls_at(store, name, views.paths.seqs.get(str(path), ()))
    attempt = query.attempt or max(calls, default=0)
    if attempt not in calls:
        raise CodedError("path_not_found", f"there is no model call, or no such attempt, at {path}")
    rebuilt = await explain(store, name, calls[attempt])
    return Prompt(
        call=rebuilt.call,
        system=rebuilt.system,
        segments=tuple(map(_segment, rebuilt.segments)),
        tail=rebuilt.tail,
    )


def _round_path(views: Views, query: PromptQuery) -> RoundTextPath:
    turn = need_turn(views, query.turn) if query.turn else views.turns.newest
    known = views.turns.turns.get(turn)
    if known is None or not known.rounds:
        raise CodedError("path_not_found", "this turn has no model call")
    return RoundTextPath(turn, "model", known.rounds[-1].n if query.round is None else query.round)


def _segment(segment: RenderedSegment) -> PromptSegment:
    size_bytes = size_of(segment.text if segment.data is None else segment.data)
    return PromptSegment(text=segment.text, mime=segment.mime, size_bytes=size_bytes, cache_point=segment.cache_point)
