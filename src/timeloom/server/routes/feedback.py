"""Routes of feedback: what people and machines think of turns, and how satisfied they are with conversations."""

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from timeloom.core.blocks import Feedback
from timeloom.core.blocks.user import Origin, Reaction
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.view.feedback import FeedbackCounts, Given, count, says_nothing
from timeloom.ports.feedback import FeedbackQuery, JudgedConversation
from timeloom.ports.reader import ConversationInfo
from timeloom.runtime.read.turn_overview import TurnCard, need_turn, turn_cards, turns_after
from timeloom.runtime.session.load_views import load_views
from timeloom.server.http.pagination import page_after, page_cursor
from timeloom.server.http.timestamps import need_past, need_period
from timeloom.server.routes.conversations import whose
from timeloom.server.services import RequestContext

MAX_TEXT_CHARS: Final = 4_000
"""Longest word on a turn; it stands in the entry itself."""


class FeedbackBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody thinks of a turn; a reaction of null takes back what a person said before."""

    reaction: Reaction | None
    text: Annotated[str, Meta(max_length=MAX_TEXT_CHARS)] = ""
    ts: str = ""
    """When it was given, as RFC 3339 in UTC; empty where that is now."""
    origin: Origin = "user"
    """What a machine says is added to what people say; only an admin passes it on."""
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None
    """How sure the machine is."""


class FeedbackTaken(msgspec.Struct, frozen=True, kw_only=True):
    """The feedback is on the timeline."""

    conversation_id: ConversationId
    turn_id: TurnId
    seq: int
    reaction: Reaction | None


class Satisfaction(msgspec.Struct, frozen=True, kw_only=True):
    """How many reactions of people stand, how much machines said, and the share of people who said `ok`."""

    ok: int
    not_ok: int
    neutral: int
    machine: int
    satisfaction: float | None


class TurnsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which of the turns that have feedback: those of these ids, with one of these reactions, of that origin."""

    turn_ids: Annotated[tuple[str, ...], Meta(max_length=1000)] | None = None
    reactions: tuple[Reaction, ...] = ()
    origin: Origin | None = None
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class TurnsWithFeedbacks(msgspec.Struct, frozen=True, kw_only=True):
    """The turns in their order; `counts` is of the whole conversation, `cursor` asks for what follows."""

    conversation_id: ConversationId
    user_id: str
    counts: Satisfaction
    turns: tuple[TurnCard, ...]
    cursor: str = ""


class PeriodBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the feedback was given, from `start` on and before `end`; an admin may ask for one user or for all (`*`)."""

    start: str
    end: str
    user: str = ""
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class PeriodConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation with what stands of the feedback it got in that time."""

    conversation: ConversationInfo
    last_feedback_ts: str
    counts: Satisfaction


class ConversationsInPeriod(msgspec.Struct, frozen=True, kw_only=True):
    """Those with the newest feedback first; `total` is of all pages, `cursor` asks for what follows."""

    tenant: str
    project: str
    start: str
    end: str
    total: Satisfaction
    conversations: tuple[PeriodConversation, ...]
    cursor: str = ""


async def post_feedback(call: RequestContext, body: FeedbackBody) -> FeedbackTaken:
    """Say what you think of a turn; what a person said before is replaced."""
    if body.ts:
        need_past("ts", body.ts, call.place.clock)
    if body.origin == "machine" and call.caller.role != "admin":
        raise CodedError("forbidden", "only an admin passes on what a machine thinks")
    if body.origin == "user" and body.confidence is not None:
        raise CodedError("request_malformed", "confidence is a machine's; leave it out")
    block = Feedback(
        origin=body.origin,
        reaction=body.reaction,
        text=body.text,
        confidence=body.confidence,
        given_ts=body.ts,
        author=call.caller.user,
    )
    if body.origin == "machine" and says_nothing(block):
        raise CodedError("request_malformed", "a machine says something: give a reaction, a text or a confidence")
    store, name = call.place.store, call.conversation.id
    views = await load_views(store, name)
    turn = need_turn(views, call.request.path_params["turn_id"])
    if body.origin == "user":
        _check_standing(call, views.feedback.turns.get(turn, ()))
    (entry,) = await call.place.hub.append(name, [block], turn)
    return FeedbackTaken(conversation_id=name, turn_id=turn, seq=entry.seq, reaction=body.reaction)


async def post_turns_with_feedbacks(call: RequestContext, body: TurnsBody) -> TurnsWithFeedbacks:
    """The turns of a conversation that have feedback, with what was said in them."""
    store, info = call.place.store, call.conversation
    views = await load_views(store, info.id)
    wanted = {
        turn
        for turn, given in views.feedback.turns.items()
        if (body.turn_ids is None or turn in body.turn_ids) and any(_is_asked_for(one, body) for one in given)
    }
    page, after = turns_after(views, page_after(body.cursor), wanted, body.limit)
    return TurnsWithFeedbacks(
        conversation_id=info.id,
        user_id=info.user,
        counts=_satisfaction(count(one for given in views.feedback.turns.values() for one in given)),
        turns=await turn_cards(store, info, views, page),
        cursor=page_cursor(after),
    )


async def post_conversations_in_period(call: RequestContext, body: PeriodBody) -> ConversationsInPeriod:
    """The conversations that got feedback in some time, and how satisfied people were."""
    need_period(body.start, body.end)
    page = await call.place.store.judged(
        FeedbackQuery(
            tenant=call.tenant,
            project=call.project,
            user=await whose(call, body.user),
            since=body.start,
            until=body.end,
            cursor=body.cursor,
            limit=body.limit,
        )
    )
    return ConversationsInPeriod(
        tenant=call.tenant,
        project=call.project,
        start=body.start,
        end=body.end,
        total=_satisfaction(page.total),
        conversations=tuple(map(_in_period, page.conversations)),
        cursor=page.cursor,
    )


def _check_standing(call: RequestContext, given: Iterable[Given]) -> None:
    """Refuses to let an admin replace or take back what somebody else thinks."""
    caller = call.caller.user
    others = (one for one in given if one.origin == "user" and one.author != caller)
    if caller != call.conversation.user and any(others):
        raise CodedError(
            "forbidden",
            "somebody has reacted to this turn, and only whose conversation it is may change that; "
            'an admin can add what a machine thinks, with "origin": "machine"',
        )


def _is_asked_for(given: Given, body: TurnsBody) -> bool:
    if given.is_empty:
        return False
    return body.origin in (None, given.origin) and (not body.reactions or given.reaction in body.reactions)


def _in_period(judged: JudgedConversation) -> PeriodConversation:
    return PeriodConversation(
        conversation=judged.info, last_feedback_ts=judged.last_ts, counts=_satisfaction(judged.counts)
    )


def _satisfaction(counts: FeedbackCounts) -> Satisfaction:
    return Satisfaction(
        ok=counts.ok,
        not_ok=counts.not_ok,
        neutral=counts.neutral,
        machine=counts.machine,
        satisfaction=counts.satisfaction,
    )
