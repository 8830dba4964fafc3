"""Routes that look into conversations: where words were said, what was said turn by turn, and what a model was sent."""

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
    """Which words are looked for, and how many places of each conversation are shown."""

    words: Annotated[str, Meta(min_length=1)]
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=50)] = 20
    hits: Annotated[int, Meta(ge=1, le=20)] = 3
    user: str = ""
    """Whose; only an admin can ask for those of somebody else, or with `*` for those of all."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation with all of the words, and the newest places with any of them."""

    conversation: ConversationInfo
    hits: tuple[Hit, ...]


class SearchPage(msgspec.Struct, frozen=True, kw_only=True):
    """Newest first; `cursor` asks for what follows and is empty at the end."""

    found: tuple[Found, ...]
    cursor: str = ""


class FetchBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which conversation, and which of its turns, by their ids or numbers; without any, all of them."""

    conversation_id: Annotated[str, Meta(min_length=1, max_length=128)]
    turn_ids: Annotated[tuple[str, ...], Meta(max_length=1000)] | None = None
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class FetchedTurns(msgspec.Struct, frozen=True, kw_only=True):
    """Turns in their order; `cursor` asks for what follows and is empty at the end."""

    conversation: ConversationInfo
    turns: tuple[TurnCard, ...]
    cursor: str = ""


class PromptQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which request: of a round, of a turn by its id or number, of several attempts; the newest of what is not said."""

    round: Annotated[int, Meta(ge=0, le=MAX_NUMBER)] | None = None
    turn: str = ""
    attempt: Annotated[int, Meta(ge=0, le=MAX_NUMBER)] = 0


class PromptSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of what was sent: text, or of a picture or a PDF its type and size."""

    text: str
    mime: str
    size_bytes: int
    cache_point: bool


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it was sent, and in `call` whether it is that byte for byte."""

    call: ReplayedCall
    system: str
    segments: tuple[PromptSegment, ...]
    tail: str


async def search_conversations(call: RequestContext, query: SearchQuery) -> SearchPage:
    """The caller's conversations with all of the words, and where in them some of the words were said."""
    store = call.place.store
    asked = ListQuery(words=query.words, cursor=query.cursor, limit=query.limit, user=query.user)
    page = await list_conversations(call, asked)
    found = [
        Found(conversation=info, hits=await find_messages(store, info, query.words, query.hits))
        for info in page.conversations
    ]
    return SearchPage(found=tuple(found), cursor=page.cursor)


async def post_fetch(call: RequestContext, body: FetchBody) -> FetchedTurns:
    """A conversation as its turns: what was said, the files that came of it, and what was thought of it."""
    store, info = call.place.store, await call.visible(body.conversation_id, "read")
    views = await load_views(store, info.id)
    wanted = views.turns.turns if body.turn_ids is None else [need_turn(views, turn) for turn in body.turn_ids]
    page, after = turns_after(views, page_after(body.cursor), wanted, body.limit)
    turns = await turn_cards(store, info, views, page)
    return FetchedTurns(conversation=info, turns=turns, cursor=page_cursor(after))


async def get_prompt(call: RequestContext, query: PromptQuery) -> Prompt:
    """What the model was sent in some round, made again from the log; without a round, in the newest."""
    store, name = call.place.store, call.conversation.id
    views = await load_views(store, name)
    path = _round_path(views, query)
    calls = await calls_at(store, name, views.paths.seqs.get(str(path), ()))
    attempt = query.attempt or max(calls, default=0)
    if attempt not in calls:
        raise CodedError("path_not_found", f"no model was asked at {path}, or not so often")
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
        raise CodedError("path_not_found", "no model was asked in that turn")
    return RoundTextPath(turn, "model", known.rounds[-1].n if query.round is None else query.round)


def _segment(segment: RenderedSegment) -> PromptSegment:
    size_bytes = size_of(segment.text if segment.data is None else segment.data)
    return PromptSegment(text=segment.text, mime=segment.mime, size_bytes=size_bytes, cache_point=segment.cache_point)
