"""Routes of feedback on turns: record it, list it, and count reactions by period."""

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from timeloom.core.blocks import Feedback
from timeloom.core.blocks.user import Origin, Reaction
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.view.feedback import FeedbackCounts, FeedbackItem, count_feedback, is_empty_feedback
from timeloom.ports.feedback import ConversationFeedback, FeedbackQuery
from timeloom.ports.reader import ConversationInfo
from timeloom.runtime.read.turn_overview import TurnOverview, build_turn_overviews, require_turn, select_turns_after
from timeloom.runtime.session.load_views import load_views
from timeloom.server.http.pagination import decode_cursor, encode_cursor
from timeloom.server.http.timestamps import check_past, check_period
from timeloom.server.request_context import RequestContext
from timeloom.server.routes.conversations import resolve_owner

MAX_TEXT_CHARS: Final = 4_000
"""Maximum length of a feedback text; it is stored inside its entry."""


class FeedbackBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Feedback on a turn; a reaction of null withdraws the previous feedback of a person."""

    reaction: Reaction | None
    text: Annotated[str, Meta(max_length=MAX_TEXT_CHARS)] = ""
    ts: str = ""
    """When the feedback was given, as RFC 3339 in UTC; empty means now."""
    origin: Origin = "user"
    """Feedback of a machine is added to that of people; only admins may submit it."""
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None
    """The confidence of the machine, from 0 to 1."""


class FeedbackReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded feedback, and the seq of its entry on the timeline."""

    conversation_id: ConversationId
    turn_id: TurnId
    seq: int
    reaction: Reaction | None


class Satisfaction(msgspec.Struct, frozen=True, kw_only=True):
    """Current reactions of people, the number of machine feedbacks, and the share of `ok` among people's reactions."""

    ok: int
    not_ok: int
    neutral: int
    machine: int
    satisfaction: float | None


class TurnsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects turns with feedback by turn id, reaction and origin."""

    turn_ids: Annotated[tuple[str, ...], Meta(max_length=1000)] | None = None
    reactions: tuple[Reaction, ...] = ()
    origin: Origin | None = None
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class TurnsWithFeedbacks(msgspec.Struct, frozen=True, kw_only=True):
    """Turns in order. `counts` covers the whole conversation; `cursor` requests the next page."""

    conversation_id: ConversationId
    user_id: str
    counts: Satisfaction
    turns: tuple[TurnOverview, ...]
    cursor: str = ""


class PeriodBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A period from `start`, inclusive, to `end`, exclusive. Admins may select another `user`, or all with `*`."""

    start: str
    end: str
    user: str = ""
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class PeriodConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation with the current feedback that it received in the period."""

    conversation: ConversationInfo
    last_feedback_ts: str
    counts: Satisfaction


class ConversationsInPeriod(msgspec.Struct, frozen=True, kw_only=True):
    """Conversations, newest feedback first. `total` covers all pages; `cursor` requests the next page."""

    tenant: str
    project: str
    start: str
    end: str
    total: Satisfaction
    conversations: tuple[PeriodConversation, ...]
    cursor: str = ""


async def post_feedback(context: RequestContext, body: FeedbackBody) -> FeedbackReceipt:
    """Record feedback on a turn. Feedback of a person replaces their previous one."""
    if body.ts:
        check_past("ts", body.ts, context.services.clock)
    if body.origin == "machine" and context.principal.role != "admin":
        raise CodedError("forbidden", "only admins may submit feedback with origin=machine")
    if body.origin == "user" and body.confidence is not None:
        raise CodedError("request_malformed", "confidence is only allowed with origin=machine; omit it")
    block = Feedback(
        origin=body.origin,
        reaction=body.reaction,
        text=body.text,
        confidence=body.confidence,
        given_ts=body.ts,
        author=context.principal.user,
    )
    if body.origin == "machine" and is_empty_feedback(block):
        raise CodedError("request_malformed", "feedback with origin=machine needs a reaction, a text or a confidence")
    store, name = context.services.store, context.conversation.id
    views = await load_views(store, name)
    turn = require_turn(views, context.request.path_params["turn_id"])
    if body.origin == "user":
        _check_may_replace(context, views.feedback.turns.get(turn, ()))
    (entry,) = await context.services.hub.append(name, [block], turn)
    return FeedbackReceipt(conversation_id=name, turn_id=turn, seq=entry.seq, reaction=body.reaction)


async def post_turns_with_feedbacks(context: RequestContext, body: TurnsBody) -> TurnsWithFeedbacks:
    """List the turns of a conversation that have feedback, with their messages."""
    store, info = context.services.store, context.conversation
    views = await load_views(store, info.id)
    wanted = {
        turn
        for turn, given in views.feedback.turns.items()
        if (body.turn_ids is None or turn in body.turn_ids) and any(_matches_filter(one, body) for one in given)
    }
    page, after = select_turns_after(views, decode_cursor(body.cursor), wanted, body.limit)
    return TurnsWithFeedbacks(
        conversation_id=info.id,
        user_id=info.user,
        counts=_to_satisfaction(count_feedback(one for given in views.feedback.turns.values() for one in given)),
        turns=await build_turn_overviews(store, info, views, page),
        cursor=encode_cursor(after),
    )


async def post_conversations_in_period(context: RequestContext, body: PeriodBody) -> ConversationsInPeriod:
    """List the conversations that received feedback in a period, with satisfaction counts."""
    check_period(body.start, body.end)
    page = await context.services.store.list_feedback(
        FeedbackQuery(
            tenant=context.tenant,
            project=context.project,
            user=await resolve_owner(context, body.user),
            since=body.start,
            until=body.end,
            cursor=body.cursor,
            limit=body.limit,
        )
    )
    return ConversationsInPeriod(
        tenant=context.tenant,
        project=context.project,
        start=body.start,
        end=body.end,
        total=_to_satisfaction(page.total),
        conversations=tuple(map(_to_period_conversation, page.conversations)),
        cursor=page.cursor,
    )


def _check_may_replace(context: RequestContext, given: Iterable[FeedbackItem]) -> None:
    """Raise if an admin would replace or withdraw the feedback of another user."""
    caller = context.principal.user
    others = (one for one in given if one.origin == "user" and one.author != caller)
    if caller != context.conversation.user and any(others):
        raise CodedError(
            "forbidden",
            "another user has reacted to this turn, and only the owner of the conversation may change that; "
            'admins can add feedback with "origin": "machine"',
        )


def _matches_filter(given: FeedbackItem, body: TurnsBody) -> bool:
    if given.is_empty:
        return False
    return body.origin in (None, given.origin) and (not body.reactions or given.reaction in body.reactions)


def _to_period_conversation(judged: ConversationFeedback) -> PeriodConversation:
    return PeriodConversation(
        conversation=judged.info, last_feedback_ts=judged.last_ts, counts=_to_satisfaction(judged.counts)
    )


def _to_satisfaction(counts: FeedbackCounts) -> Satisfaction:
    return Satisfaction(
        ok=counts.ok,
        not_ok=counts.not_ok,
        neutral=counts.neutral,
        machine=counts.machine,
        satisfaction=counts.satisfaction,
    )
