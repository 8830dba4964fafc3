"""Handles messages, events and decisions that clients send over WebSocket and Socket.IO."""

from typing import Final, TypeVar

import msgspec

from timeloom.core.codes import CodedError
from timeloom.runtime.hub.events import ChatError
from timeloom.runtime.hub.live_conversation import Accepted
from timeloom.server.authorize import let_in_again
from timeloom.server.http.problem_json import STATUSES
from timeloom.server.http.validation_error import what_is_wrong
from timeloom.server.routes.chat import DecisionBody, EventBody, SaidBody, decide, post_event
from timeloom.server.services import RequestContext

Body = TypeVar("Body", bound=msgspec.Struct)

MESSAGE: Final = "chat.message"
EVENT: Final = "chat.event"
DECISION: Final = "chat.decision"

DECIDED: Final = 202
"""The status in the audit log of an accepted decision, the same as for an HTTP request."""


class CallDecision(DecisionBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decision together with the id of its call."""

    call_id: str


async def take(call: RequestContext, event: str, data: object) -> Accepted:
    """Store a client's message on the timeline; raise if it is invalid or the client is no longer authorized."""
    match event:
        case "chat.message":
            said, call = converted(data, SaidBody), await let_in_again(call)
            info = call.conversation
            return await call.place.hub.say(info.id, said.message, author=call.author_in(info))
        case "chat.event":
            return await post_event(await let_in_again(call), converted(data, EventBody))
        case "chat.decision":
            return await _decided(call, converted(data, CallDecision))
        case _:
            every = f"{MESSAGE}, {EVENT} or {DECISION}"
            raise CodedError("request_malformed", f"event must be {every}, got {event[:60]!r}")


async def _decided(call: RequestContext, body: CallDecision) -> Accepted:
    call = await let_in_again(call, "decider", body.call_id)
    try:
        accepted = await decide(call, body.call_id, body)
    except CodedError as error:
        await call.record_end(STATUSES.get(error.code, 500))
        raise
    await call.record_end(DECIDED)
    return accepted


def converted(data: object, kind: type[Body]) -> Body:
    """Convert the data to that type; raise if it does not match."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise CodedError("request_malformed", f"the data is invalid: {what_is_wrong(error, kind)}") from error


def refusal(error: CodedError) -> ChatError:
    """Return the error for the client; the details of internal errors are only in the log."""
    is_ours = STATUSES.get(error.code, 500) == 500
    return ChatError(code=error.code, message="internal error; see the server's log" if is_ours else str(error))
