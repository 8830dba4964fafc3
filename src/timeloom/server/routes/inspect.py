"""Routes that inspect conversations: fetch turns, show prompts."""

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
from timeloom.runtime.read.turn_overview import TurnOverview, build_turn_overviews, require_turn, select_turns_after
from timeloom.runtime.replay.replay import ReplayedCall, explain_call, find_calls_at
from timeloom.runtime.session.load_views import load_views
from timeloom.server.http.pagination import decode_cursor, encode_cursor
from timeloom.server.request_context import RequestContext


class FetchBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects a conversation and its turns by id or number; without `turn_ids`, all turns."""

    conversation_id: Annotated[str, Meta(min_length=1, max_length=128)]
    turn_ids: Annotated[tuple[str, ...], Meta(max_length=1000)] | None = None
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class TurnsPage(msgspec.Struct, frozen=True, kw_only=True):
    """Turns in order. `cursor` requests the next page and is empty on the last one."""

    conversation: ConversationInfo
    turns: tuple[TurnOverview, ...]
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


class PromptDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A model request rebuilt from the log; `call` reports whether it equals the original byte for byte."""

    call: ReplayedCall
    system: str
    segments: tuple[PromptSegment, ...]
    tail: str


async def post_fetch(context: RequestContext, body: FetchBody) -> TurnsPage:
    """Return the turns of a conversation with their messages, files and feedback."""
    store, info = context.services.store, await context.require_conversation(body.conversation_id, "read")
    views = await load_views(store, info.id)
    selected = views.turns.turns if body.turn_ids is None else [require_turn(views, turn) for turn in body.turn_ids]
    page, after = select_turns_after(views, decode_cursor(body.cursor), selected, body.limit)
    turns = await build_turn_overviews(store, info, views, page)
    return TurnsPage(conversation=info, turns=turns, cursor=encode_cursor(after))


async def get_prompt(context: RequestContext, query: PromptQuery) -> PromptDetails:
    """Return the prompt of a round, rebuilt from the log. Default: the newest round."""
    store, name = context.services.store, context.conversation.id
    views = await load_views(store, name)
    path = _round_path(views, query)
    calls = await find_calls_at(store, name, views.paths.seqs.get(str(path), ()))
    attempt = query.attempt or max(calls, default=0)
    if attempt not in calls:
        raise CodedError("path_not_found", f"there is no model call, or no such attempt, at {path}")
    rebuilt = await explain_call(store, name, calls[attempt])
    return PromptDetails(
        call=rebuilt.call,
        system=rebuilt.system,
        segments=tuple(map(_to_prompt_segment, rebuilt.segments)),
        tail=rebuilt.tail,
    )


def _round_path(views: Views, query: PromptQuery) -> RoundTextPath:
    turn = require_turn(views, query.turn) if query.turn else views.turns.newest
    turn_info = views.turns.turns.get(turn)
    if turn_info is None or not turn_info.rounds:
        raise CodedError("path_not_found", "this turn has no model call")
    return RoundTextPath(turn, "model", turn_info.rounds[-1].n if query.round is None else query.round)


def _to_prompt_segment(segment: RenderedSegment) -> PromptSegment:
    size_bytes = size_of(segment.text if segment.data is None else segment.data)
    return PromptSegment(text=segment.text, mime=segment.mime, size_bytes=size_bytes, cache_point=segment.cache_point)
