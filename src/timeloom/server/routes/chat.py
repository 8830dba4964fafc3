"""Routes of live conversations: messages, events, approval decisions and the event stream."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.requests import Request

from timeloom.core.blocks import ConversationStarted
from timeloom.core.codes import CodedError
from timeloom.core.ids import IdError, call_id
from timeloom.core.view.progress import CANCEL
from timeloom.runtime.hub.live_conversation import Accepted, Sent
from timeloom.runtime.turn.attachments import TextFile
from timeloom.server.http.sse import MEDIA_TYPE, EventStream
from timeloom.server.http.timestamps import need_past
from timeloom.server.services import RequestContext

MAX_SEQ: Final = 2**53


class SaidBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message that is not empty."""

    message: Annotated[str, Meta(min_length=1)]

    def __post_init__(self) -> None:
        if not self.message.strip():
            raise ValueError("message must not be empty")


class MessageBody(SaidBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message; without `conversation_id` it starts a new conversation."""

    conversation_id: str | None = None


class EventBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event: `followup`, `steer`, `cancel`, or any other kind, which is shown to the model."""

    kind: Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_-]{0,63}\Z")]
    text: str = ""
    mime: Annotated[str, Meta(pattern=r"\Atext/[a-z0-9.+-]+\Z|\Aapplication/json\Z")] = "text/markdown"
    started_ts: str = ""
    """When the event began, as RFC 3339 in UTC; empty means now."""


class DecisionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's decision on a call, with an optional reason in `text`."""

    approved: bool
    text: str = ""


class StreamQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The block after which a stream begins, for clients that cannot send `Last-Event-ID`."""

    after: Annotated[int, Meta(ge=0, le=MAX_SEQ)] = 0


async def post_message(
    call: RequestContext, body: MessageBody, files: tuple[TextFile, ...] = ()
) -> Accepted | EventStream:
    """Send a message. It starts a turn, or becomes a follow-up of the running turn."""
    hub = call.place.hub
    listens = MEDIA_TYPE in call.request.headers.get("accept", "")
    if body.conversation_id:
        info = await call.visible(body.conversation_id)
        author = call.author_in(info)
        if not listens:
            return await hub.say(info.id, body.message, files, author)
        accepted, opened = await hub.say_heard(info, body.message, files, author)
    else:
        header = ConversationStarted(tenant=call.tenant, project=call.project, user=call.caller.user)
        if not listens:
            return await hub.begin(header, body.message, files)
        accepted, opened = await hub.begin_heard(header, body.message, files)
    call.request.state.accepted = accepted
    return EventStream(opened, call.place.leave_s, accepted.turn_id)


async def get_stream(call: RequestContext, query: StreamQuery) -> EventStream:
    """Stream the events of a conversation, beginning after the block `Last-Event-ID`."""
    after = _last_event_id(call.request) or query.after
    return EventStream(call.place.hub.stream(call.conversation, after), call.place.leave_s)


async def post_event(call: RequestContext, body: EventBody, files: tuple[TextFile, ...] = ()) -> Accepted:
    """Send an event to the running turn. If the turn cannot accept it any more, it starts the next turn."""
    if body.kind == "followup" and not body.text.strip():
        raise CodedError("request_malformed", "text of a follow-up must not be empty")
    if files and (body.kind == CANCEL or (body.kind == "steer" and not body.text)):
        raise CodedError("request_malformed", "an event that ends a turn must not have attachments")
    if body.started_ts:
        need_past("started_ts", body.started_ts, call.place.clock)
    if body.text and body.mime == "application/json":
        _need_json(body.text)
    sent = Sent(
        kind=body.kind,
        text=body.text,
        by=call.caller.user,
        author=call.author_in(call.conversation),
        mime=body.mime,
        started_ts=body.started_ts,
        files=files,
    )
    return await call.place.hub.send(call.conversation.id, sent)


async def post_approval(call: RequestContext, body: DecisionBody) -> Accepted:
    """Approve or reject a call that waits for approval; the turn then continues."""
    return await decide(call, call.call_id, body)


async def decide(call: RequestContext, named: str, body: DecisionBody) -> Accepted:
    """Submit a decision on a call of this conversation; the principal must be authorized to decide."""
    try:
        name = call_id(named)
    except IdError as error:
        raise CodedError("approval_unknown", str(error)) from error
    return await call.place.hub.decide(call.conversation.id, name, body.approved, call.caller.user, body.text)


def _need_json(text: str) -> None:
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CodedError("request_malformed", f"text must be valid JSON, as mime says: {error}") from error


def _last_event_id(request: Request) -> int:
    text = request.headers.get("last-event-id", "")
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or int(text[:20]) > MAX_SEQ:
        raise CodedError("request_malformed", f"Last-Event-ID must be the id of a block, got {text[:40]!r}")
    return int(text)
