"""Handles messages, events and decisions that clients send over WebSocket and Socket.IO."""

from typing import Final, TypeVar

import msgspec

from timeloom.core.codes import CodedError
from timeloom.runtime.hub.events import ChatError
from timeloom.runtime.hub.state import SendReceipt
from timeloom.server.authorize import reauthorize
from timeloom.server.http.problem_json import STATUSES
from timeloom.server.http.validation_error import explain_validation_error
from timeloom.server.request_context import RequestContext
from timeloom.server.routes.chat import DecisionBody, EventBody, MessageText, post_event, submit_decision

Body = TypeVar("Body", bound=msgspec.Struct)

MESSAGE: Final = "chat.message"
EVENT: Final = "chat.event"
DECISION: Final = "chat.decision"

DECISION_STATUS: Final = 202
"""The status in the audit log of an accepted decision, the same as for an HTTP request."""


class CallDecision(DecisionBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decision together with the id of its call."""

    call_id: str


async def handle_message(context: RequestContext, event: str, data: object) -> SendReceipt:
    """Store a client's message on the timeline; raise if it is invalid or the client is no longer authorized."""
    match event:
        case "chat.message":
            message, context = convert_body(data, MessageText), await reauthorize(context)
            info = context.conversation
            return await context.services.hub.send_message(info.id, message.message, author=context.author_in(info))
        case "chat.event":
            return await post_event(await reauthorize(context), convert_body(data, EventBody))
        case "chat.decision":
            return await _handle_decision(context, convert_body(data, CallDecision))
        case _:
            expected = f"{MESSAGE}, {EVENT} or {DECISION}"
            raise CodedError("request_malformed", f"event must be {expected}, got {event[:60]!r}")


async def _handle_decision(context: RequestContext, body: CallDecision) -> SendReceipt:
    context = await reauthorize(context, "decider", body.call_id)
    try:
        accepted = await submit_decision(context, body.call_id, body)
    except CodedError as error:
        await context.record_response(STATUSES.get(error.code, 500))
        raise
    await context.record_response(DECISION_STATUS)
    return accepted


def convert_body(data: object, kind: type[Body]) -> Body:
    """Convert the data to that type; raise if it does not match."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise CodedError(
            "request_malformed", f"the data is invalid: {explain_validation_error(error, kind)}"
        ) from error


def to_chat_error(error: CodedError) -> ChatError:
    """Return the error for the client; the details of internal errors are only in the log."""
    is_internal = STATUSES.get(error.code, 500) == 500
    return ChatError(code=error.code, message="internal error; see the server's log" if is_internal else str(error))
