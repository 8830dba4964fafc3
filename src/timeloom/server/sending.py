"""Sending: what a client says over a connection that it keeps, and what it is told of that."""

from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from timeloom.core.codes import CodedError
from timeloom.runtime.hub_events import ChatError
from timeloom.runtime.hub_seat import Accepted
from timeloom.server.chat import EventBody, post_event
from timeloom.server.place import Call
from timeloom.server.problems import STATUSES

Body = TypeVar("Body", bound=msgspec.Struct)

MESSAGE: Final = "chat.message"
EVENT: Final = "chat.event"


class SaidBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody says."""

    message: Annotated[str, Meta(min_length=1)]


async def take(call: Call, event: str, data: object) -> Accepted:
    """What was sent is on the timeline of the call's conversation; raises where it cannot be taken."""
    match event:
        case "chat.message":
            said = converted(data, SaidBody)
            return await call.place.hub.say(call.conversation.id, said.message)
        case "chat.event":
            return await post_event(call, converted(data, EventBody))
        case _:
            raise CodedError("request_malformed", f"what is sent is {MESSAGE} or {EVENT}, got {event[:60]!r}")


def converted(data: object, kind: type[Body]) -> Body:
    """The data as that; raises where it is not."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise CodedError("request_malformed", f"the data is not as expected: {error}") from error


def refusal(error: CodedError) -> ChatError:
    """Why it was not taken; what is the server's own is not told in full."""
    is_ours = STATUSES.get(error.code, 500) == 500
    return ChatError(code=error.code, message="the server's log says more" if is_ours else str(error))
