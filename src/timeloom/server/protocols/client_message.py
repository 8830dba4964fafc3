"""Sending: what a client says over a connection that it keeps, and what it is told of that."""

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
"""What the audit trail says of a decision that was taken, as where a request brought it."""


class CallDecision(DecisionBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's decision on a call."""

    call_id: str


async def take(call: RequestContext, event: str, data: object) -> Accepted:
    """What was sent is on the timeline of the call's conversation; raises where it cannot be taken, or not any more."""
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
            raise CodedError("request_malformed", f"what is sent is {every}, got {event[:60]!r}")


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
    """The data as that; raises where it is not."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise CodedError("request_malformed", f"the data is not as expected: {what_is_wrong(error, kind)}") from error


def refusal(error: CodedError) -> ChatError:
    """Why it was not taken; what is the server's own is not told in full."""
    is_ours = STATUSES.get(error.code, 500) == 500
    return ChatError(code=error.code, message="the server's log says more" if is_ours else str(error))
