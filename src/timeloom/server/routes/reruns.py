"""Routes that run a conversation again with another model and compare both trajectories."""

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
    """The entry after which to run again, and the model; default: the server's model."""

    seq: Annotated[int, Meta(ge=1, le=2**53)]
    model: str = ""
    turns: Turns | None = None
    """Maximum number of turns; default: all."""


class RerunStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A running re-run: its fork and its model."""

    conversation_id: ConversationId
    model: str


class ComparisonQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects a page of compared turns; without `cursor`, the first turns after the fork."""

    turns: PageTurns = 20
    cursor: str = ""


class ComparedFork(msgspec.Struct, frozen=True, kw_only=True):
    """The fork's status and both trajectories so far; `cursor` requests the next turns."""

    conversation_id: ConversationId
    status: ConvStatus
    comparison: Comparison
    cursor: str = ""


async def post_rerun(call: RequestContext, body: RerunBody) -> RerunStarted:
    """Run the turns after an entry again, on a fork, with the server's model or another selectable one."""
    reruns = call.place.reruns
    if call.place.hub.is_closing:
        raise CodedError("server_closing", "the server is shutting down")
    model = body.model or reruns.models[0]
    fork = await reruns.start(call.caller.id, call.conversation.id, body.seq, model, body.turns)
    return RerunStarted(conversation_id=fork, model=model)


async def delete_rerun(call: RequestContext) -> Response:
    """Cancel the re-run of a fork, which ends its turn."""
    fork = call.conversation.id
    if not await call.place.reruns.stop(fork):
        raise CodedError("turn_not_running", f"no re-run of {fork} is running on this server")
    return Response(status_code=204)


async def get_comparison(call: RequestContext, query: ComparisonQuery) -> ComparedFork:
    """Compare the turns of a fork with those of its source after the fork point."""
    place, fork = call.place, call.conversation.id
    point = await fork_point(place.store, fork)
    await call.visible(point.conversation_id, "read")
    runs = place.reruns.is_running(fork)
    status = await place.hub.status(fork)
    after = page_after(query.cursor)
    comparison, following = await compare(place.store, fork, point, after=after, most_turns=query.turns)
    # Before the first turn and between two turns, only the re-run task knows that more turns follow.
    status = replace(status, state="running") if runs else status
    return ComparedFork(conversation_id=fork, status=status, comparison=comparison, cursor=page_cursor(following))
