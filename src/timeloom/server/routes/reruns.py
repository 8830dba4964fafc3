"""Routes that run a conversation again with another model and compare both trajectories."""

from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from starlette.responses import Response

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.runtime.hub.events import ConvStatus
from timeloom.runtime.rerun.compare import Comparison, compare_fork, load_fork_point
from timeloom.server.http.pagination import decode_cursor, encode_cursor
from timeloom.server.request_context import RequestContext

TurnCount = Annotated[int, Meta(ge=1, le=1000)]
PageTurnCount = Annotated[int, Meta(ge=1, le=100)]


class RerunBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The entry after which to run again, and the model; default: the server's model."""

    seq: Annotated[int, Meta(ge=1, le=2**53)]
    model: str = ""
    turns: TurnCount | None = None
    """Maximum number of turns; default: all."""


class RerunJob(msgspec.Struct, frozen=True, kw_only=True):
    """A running re-run: its fork and its model."""

    conversation_id: ConversationId
    model: str


class ComparisonQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects a page of compared turns; without `cursor`, the first turns after the fork."""

    turns: PageTurnCount = 20
    cursor: str = ""


class ForkComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The fork's status and both trajectories so far; `cursor` requests the next turns."""

    conversation_id: ConversationId
    status: ConvStatus
    comparison: Comparison
    cursor: str = ""


async def post_rerun(context: RequestContext, body: RerunBody) -> RerunJob:
    """Run the turns after an entry again, on a fork, with the server's model or another selectable one."""
    reruns = context.services.reruns
    if context.services.hub.is_closing:
        raise CodedError("server_closing", "the server is shutting down")
    model = body.model or reruns.models[0]
    fork = await reruns.start(context.principal.id, context.conversation.id, body.seq, model, body.turns)
    return RerunJob(conversation_id=fork, model=model)


async def delete_rerun(context: RequestContext) -> Response:
    """Cancel the re-run of a fork, which ends its turn."""
    fork = context.conversation.id
    if not await context.services.reruns.stop(fork):
        raise CodedError("turn_not_running", f"no re-run of {fork} is running on this server")
    return Response(status_code=204)


async def get_comparison(context: RequestContext, query: ComparisonQuery) -> ForkComparison:
    """Compare the turns of a fork with those of its source after the fork point."""
    services, fork = context.services, context.conversation.id
    point = await load_fork_point(services.store, fork)
    await context.require_conversation(point.conversation_id, "read")
    runs = services.reruns.is_running(fork)
    status = await services.hub.status(fork)
    after = decode_cursor(query.cursor)
    comparison, following = await compare_fork(services.store, fork, point, after=after, max_turns=query.turns)
    # Before the first turn and between two turns, only the re-run task knows that more turns follow.
    status = replace(status, state="running") if runs else status
    return ForkComparison(conversation_id=fork, status=status, comparison=comparison, cursor=encode_cursor(following))
