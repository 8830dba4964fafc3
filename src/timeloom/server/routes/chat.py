"""Routes of live conversations: messages, events, approval decisions and the event stream."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.requests import Request

from timeloom.core.codes import CodedError
from timeloom.core.ids import IdError, MessageId, parse_call_id
from timeloom.core.render.v1.summary import FOCUS_CHARS
from timeloom.core.view.forms import FORM_EVENT
from timeloom.core.view.progress import CANCEL_EVENT
from timeloom.runtime.hub.state import COMPACT_EVENT, IncomingMessage, SendReceipt
from timeloom.runtime.turn.attachments import IncomingFile
from timeloom.server.http.sse import MEDIA_TYPE, EventStream
from timeloom.server.http.timestamps import check_past
from timeloom.server.request_context import RequestContext
from timeloom.tools.react.compact import MAX_KEPT_ROUNDS

MAX_SEQ: Final = 2**53


BundleName = Annotated[str, Meta(max_length=100)]


class MessageText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message that is not empty."""

    message: Annotated[str, Meta(min_length=1)]

    def __post_init__(self) -> None:
        if not self.message.strip():
            raise ValueError("message must not be empty")


class MessageBody(MessageText, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message; without `conversation_id` it starts a new conversation."""

    conversation_id: str | None = None
    bundle: BundleName = ""
    """The bundle of a new conversation; empty means the server's default."""


class FirstMessage(MessageText, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first message of a conversation, on a connection that has joined none."""

    bundle: BundleName = ""
    """The bundle of the conversation; empty means the server's default."""


class EventBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event: `followup`, `steer`, `cancel`, `compact`, or any other kind, which is shown to the model."""

    kind: Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_-]{0,63}\Z")]
    text: str = ""
    mime: Annotated[str, Meta(pattern=r"\Atext/[a-z0-9.+-]+\Z|\Aapplication/json\Z")] = "text/markdown"
    started_ts: str = ""
    """When the event began, as RFC 3339 in UTC; empty means now."""
    form: Annotated[str, Meta(max_length=128)] = ""
    """For `form`: the id of the call that asked; `text` is then a JSON object with the values of its fields."""
    keep: Annotated[int, Meta(ge=0, le=MAX_KEPT_ROUNDS)] = 0
    """For `compact`: the number of newest rounds that stay; 0 means two."""
    request_id: Annotated[str, Meta(pattern=r"\A([A-Za-z0-9][A-Za-z0-9_-]{0,63})?\Z")] = ""
    """For `compact`: an id of your choice, so that a request that is sent twice is carried out once."""


class DecisionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's decision on a call, with an optional reason in `text`."""

    approved: bool
    text: str = ""


class StreamQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The block after which a stream begins, for clients that cannot send `Last-Event-ID`."""

    after: Annotated[int, Meta(ge=0, le=MAX_SEQ)] = 0


async def post_message(
    context: RequestContext, body: MessageBody, files: tuple[IncomingFile, ...] = ()
) -> SendReceipt | EventStream:
    """Send a message. It starts a turn, or becomes a follow-up of the running turn."""
    hub = context.services.hub
    wants_stream = MEDIA_TYPE in context.request.headers.get("accept", "")
    if body.conversation_id:
        info = await context.require_conversation(body.conversation_id)
        context.check_bundle(info, body.bundle)
        author = context.author_in(info)
        if not wants_stream:
            return await hub.send_message(info.id, body.message, files, author)
        accepted, opened = await hub.send_message_and_stream(info, body.message, files, author)
    else:
        header = await context.start_header(body.bundle)
        if not wants_stream:
            return await hub.start_conversation(header, body.message, files)
        accepted, opened = await hub.start_and_stream(header, body.message, files)
    context.request.state.accepted = accepted
    return EventStream(opened, context.services.drain_timeout_s, accepted.turn_id)


async def get_stream(context: RequestContext, query: StreamQuery) -> EventStream:
    """Stream the events of a conversation, beginning after the block `Last-Event-ID`."""
    after = _last_event_id(context.request) or query.after
    return EventStream(context.services.hub.stream(context.conversation, after), context.services.drain_timeout_s)


async def post_event(context: RequestContext, body: EventBody, files: tuple[IncomingFile, ...] = ()) -> SendReceipt:
    """Send an event to the running turn. If the turn cannot accept it any more, it starts the next turn."""
    _check_event(body, files)
    if body.started_ts:
        check_past("started_ts", body.started_ts, context.services.clock)
    sent = IncomingMessage(
        kind=body.kind,
        text=body.text,
        by=context.principal.user,
        author=context.author_in(context.conversation),
        mime=body.mime,
        started_ts=body.started_ts,
        files=files,
        form=body.form,
        keep=body.keep,
        request_id=MessageId(body.request_id) if body.request_id else None,
    )
    return await context.services.hub.send_event(context.conversation.id, sent)


async def post_approval(context: RequestContext, body: DecisionBody) -> SendReceipt:
    """Approve or reject a call that waits for approval; the turn then continues."""
    return await submit_decision(context, context.call_id, body)


async def submit_decision(context: RequestContext, call_name: str, body: DecisionBody) -> SendReceipt:
    """Submit a decision on a call of this conversation; the principal must be authorized to decide."""
    try:
        tool_call_id = parse_call_id(call_name)
    except IdError as error:
        raise CodedError("approval_unknown", str(error)) from error
    return await context.services.hub.decide(
        context.conversation.id, tool_call_id, body.approved, context.principal.user, body.text
    )


def _check_event(body: EventBody, files: Sequence[IncomingFile]) -> None:
    if body.kind == "followup" and not body.text.strip():
        raise CodedError("request_malformed", "text of a follow-up must not be empty")
    if files and (body.kind == CANCEL_EVENT or (body.kind == "steer" and not body.text)):
        raise CodedError("request_malformed", "an event that ends a turn must not have attachments")
    if body.kind != COMPACT_EVENT and (body.keep or body.request_id):
        raise CodedError("request_malformed", f"keep and request_id belong to kind={COMPACT_EVENT}; omit them")
    if body.kind == COMPACT_EVENT and (files or len(body.text) > FOCUS_CHARS):
        raise CodedError(
            "request_malformed", f"a compaction has no attachments, and its text has at most {FOCUS_CHARS} characters"
        )
    if body.form and body.kind != FORM_EVENT:
        raise CodedError("request_malformed", f"form belongs to kind={FORM_EVENT}; omit it")
    if body.text and body.mime == "application/json":
        _check_json(body.text)


def _check_json(text: str) -> None:
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
