"""Routes that run a conversation again with a model of one's choice, and that show both courses side by side."""

from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from starlette.responses import Response

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.runtime.hub.events import ConvStatus
from timeloom.runtime.rerun.compare import Comparison, compare, fork_point
from timeloom.server.http.pagination import page_after, page_cursor
from timeloom.server.services import RequestContext

Turns = Annotated[int, Meta(ge=1, le=1000)]
PageTurns = Annotated[int, Meta(ge=1, le=100)]


class RerunBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Run what follows which entry, with which model, which is the server's own where none is named."""

    seq: Annotated[int, Meta(ge=1, le=2**53)]
    model: str = ""
    turns: Turns | None = None
    """At most so many turns; all of them where it is not said."""


class RerunStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A fork on which that model is asked by now."""

    conversation_id: ConversationId
    model: str


class ComparisonQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many turns are compared, and from where on: the first ones after the fork where that is not said."""

    turns: PageTurns = 20
    cursor: str = ""


class ComparedFork(msgspec.Struct, frozen=True, kw_only=True):
    """What the fork does now, and both courses as far as they are; `cursor` asks for the turns that follow."""

    conversation_id: ConversationId
    status: ConvStatus
    comparison: Comparison
    cursor: str = ""


async def post_rerun(call: RequestContext, body: RerunBody) -> RerunStarted:
    """Run what follows an entry again, on a fork, with the server's model or another that it lets people choose."""
    reruns = call.place.reruns
    if call.place.hub.is_closing:
        raise CodedError("server_closing", "the server is closing")
    model = body.model or reruns.models[0]
    fork = await reruns.start(call.caller.id, call.conversation.id, body.seq, model, body.turns)
    return RerunStarted(conversation_id=fork, model=model)


async def delete_rerun(call: RequestContext) -> Response:
    """Break off the run of a fork, which ends its turn."""
    fork = call.conversation.id
    if not await call.place.reruns.stop(fork):
        raise CodedError("turn_not_running", f"{fork} is not being run again here")
    return Response(status_code=204)


async def get_comparison(call: RequestContext, query: ComparisonQuery) -> ComparedFork:
    """What a fork made of its conversation, beside what the conversation has after that place."""
    place, fork = call.place, call.conversation.id
    point = await fork_point(place.store, fork)
    await call.visible(point.conversation_id, "read")
    runs = place.reruns.is_running(fork)
    status = await place.hub.status(fork)
    after = page_after(query.cursor)
    comparison, following = await compare(place.store, fork, point, after=after, most_turns=query.turns)
    # Between two turns, and before the first goes on, only whoever runs them knows that more will come.
    status = replace(status, state="running") if runs else status
    return ComparedFork(conversation_id=fork, status=status, comparison=comparison, cursor=page_cursor(following))
