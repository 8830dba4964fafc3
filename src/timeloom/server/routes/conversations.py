"""Routes of stored conversations: list, read, rename, fork, erase and delete."""

from typing import Annotated, ClassVar, Final, Literal

import msgspec
from msgspec import Meta, structs
from starlette.responses import Response

from timeloom.core.blocks import Titled
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.paths import has_invisible_characters
from timeloom.ports.reader import ConversationInfo, ConversationPage, ConversationQuery
from timeloom.runtime.erase.erase import EraseRequest, ErasureReport, delete_conversation_data, erase
from timeloom.runtime.fork.fork import ForkResult, fork, fork_at
from timeloom.runtime.hub.events import ConversationState, ConvStatus
from timeloom.runtime.read.export import encode_whole_block, export_timeline, load_sources_page
from timeloom.runtime.read.export_chronological import RestoredTimeline, export_chronological
from timeloom.server.auth.principal import WILDCARD
from timeloom.server.conversation_states import load_states, load_title
from timeloom.server.http.json_stream import JsonStream
from timeloom.server.http.pagination import decode_cursor, encode_cursor
from timeloom.server.request_context import RequestContext
from timeloom.wire.block_schema import BlockRaw
from timeloom.wire.exported_chain import TimelineExport
from timeloom.wire.layouts import SourceRaw
from timeloom.wire.timeline_json import SOURCES_TYPE

MAX_PAGE: Final = 1000
TITLE_CHARS: Final = 300
"""Maximum length of a title set by a person; lists show no more."""


class ListQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects the listed conversations."""

    words: str = ""
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    user: str = ""
    """The owner; empty means the caller. Only admins may list another user's, or with `*` those of all users."""


class ListedConversation(ConversationInfo, frozen=True, kw_only=True):
    """A conversation and its state."""

    state: ConversationState


class ConversationList(msgspec.Struct, frozen=True, kw_only=True):
    """Conversations, newest first; `cursor` requests the next page and is empty at the end."""

    conversations: tuple[ListedConversation, ...]
    cursor: str = ""


class ConversationDetails(ListedConversation, frozen=True, kw_only=True):
    """A conversation, its state, and the caller's permissions."""

    may_write: bool
    """Whether the caller may send messages; without it, the caller may only read and perhaps decide on calls."""
    may_decide: bool
    """Whether the caller may decide on calls that wait for approval."""


class TimelineQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects a page of the timeline.

    `form=export` returns the whole timeline as `conv.timeline.v1`, with hidden and edited blocks marked.
    """

    after: Annotated[int, Meta(ge=0, le=2**53)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 500
    form: Literal["blocks", "export", "restored"] = "blocks"
    """`restored` returns the whole timeline in chronological order: events are sorted by their start times."""


class TimelinePage(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks in order: the first has the seq `after + 1`. Pass `next` as `after` to get the next page."""

    conversation_id: ConversationId
    after: int
    tail: int
    blocks: tuple[BlockRaw, ...]
    next: int | None = None


class TimelineExportStream(JsonStream):
    """The form `export`."""

    value_type: ClassVar = TimelineExport


class RestoredTimelineStream(JsonStream):
    """The form `restored`."""

    value_type: ClassVar = RestoredTimeline


class SourcesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects a page of the sources."""

    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class SourcesPage(msgspec.Struct, frozen=True, kw_only=True):
    """Sources in the order of their ids. `cursor` requests the next page and is empty on the last one."""

    type: Literal["conv:sources_pool"] = SOURCES_TYPE
    conversation_id: ConversationId
    rows: tuple[SourceRaw, ...]
    cursor: str = ""


class TitleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The new title of a conversation."""

    title: Annotated[str, Meta(min_length=1, max_length=TITLE_CHARS)]


class ConversationTitle(msgspec.Struct, frozen=True, kw_only=True):
    """The new title, and the seq of its entry on the timeline."""

    conversation_id: ConversationId
    title: str
    seq: int


class ForkBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The point to fork at: the end of a turn, by its id or number, or an entry. Default: the whole conversation."""

    turn: str | None = None
    seq: Annotated[int, Meta(ge=1, le=2**53)] | None = None


class EraseBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects the content to erase: these paths, or `all`. With `quotes`, also blocks with the same text."""

    paths: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()
    all: bool = False
    quotes: bool = False


async def list_conversations(context: RequestContext, query: ListQuery) -> ConversationList:
    """List the caller's conversations with their states, newest first."""
    page = await find_conversations(context, query)
    states = await load_states(context.services, page.conversations)
    listed = [await _to_listed(context, info, state) for info, state in zip(page.conversations, states, strict=True)]
    return ConversationList(conversations=tuple(listed), cursor=page.cursor)


async def _to_listed(context: RequestContext, info: ConversationInfo, state: ConversationState) -> ListedConversation:
    title = info.title if state == "idle" else await load_title(context.services, info)
    return ListedConversation(**structs.asdict(structs.replace(info, title=title)), state=state)


async def find_conversations(context: RequestContext, query: ListQuery) -> ConversationPage:
    """Return one page of the conversations that the caller may list, newest first."""
    return await context.services.store.conversations(
        ConversationQuery(
            tenant=context.tenant,
            project=context.project,
            user=await resolve_owner(context, query.user),
            words=query.words,
            cursor=query.cursor,
            limit=query.limit,
        )
    )


async def get_conversation(context: RequestContext) -> ConversationDetails:
    """Return the owner, the title, the last entry and the state of a conversation, and what the caller may do."""
    info = context.conversation
    (state,) = await load_states(context.services, [info])
    listed = await _to_listed(context, info, state)
    return ConversationDetails(
        **structs.asdict(listed),
        may_write=context.principal.can_access("change", info),
        may_decide=context.services.access_policy.may_decide(context.principal.role),
    )


async def get_timeline(
    context: RequestContext, query: TimelineQuery
) -> TimelinePage | TimelineExportStream | RestoredTimelineStream:
    """Return the stored blocks page by page, in the same form as the event stream."""
    store, info = context.services.store, context.conversation
    if query.form == "export":
        return TimelineExportStream(export_timeline(store, info.id))
    if query.form == "restored":
        return RestoredTimelineStream(export_chronological(store, info.id))
    entries = await store.load(info.id, after=query.after, limit=query.limit)
    blocks = [msgspec.Raw(await encode_whole_block(store, info.tenant, entry)) for entry in entries]
    last = entries[-1].seq if entries else query.after
    return TimelinePage(
        conversation_id=info.id,
        after=query.after,
        tail=max(info.tail, last if entries else 0),
        blocks=tuple(blocks),
        next=last if entries and last < info.tail else None,
    )


async def get_sources(context: RequestContext, query: SourcesQuery) -> SourcesPage:
    """Return the complete sources of the conversation as `conv:sources_pool`, page by page."""
    name = context.conversation.id
    rows, after = await load_sources_page(context.services.store, name, decode_cursor(query.cursor), query.limit)
    return SourcesPage(conversation_id=name, rows=tuple(map(msgspec.Raw, rows)), cursor=encode_cursor(after))


async def get_status(context: RequestContext) -> ConvStatus:
    """Return the current state: idle, a running turn, or a turn that waits for approval."""
    return await context.services.hub.status(context.conversation.id)


async def post_title(context: RequestContext, body: TitleBody) -> ConversationTitle:
    """Set the title of the conversation."""
    title = " ".join(body.title.split())
    if not title:
        raise CodedError("request_malformed", "title must not be empty")
    if has_invisible_characters(title):
        raise CodedError("request_malformed", "title must not contain control or invisible characters")
    name = context.conversation.id
    (entry,) = await context.services.hub.append(name, [Titled(text=title, author=context.principal.user)])
    return ConversationTitle(conversation_id=name, title=title, seq=entry.seq)


async def post_fork(context: RequestContext, body: ForkBody) -> ForkResult:
    """Fork the conversation: create an independent copy up to a turn or an entry."""
    services, source = context.services, context.conversation.id
    if body.turn is not None and body.seq is not None:
        raise CodedError("request_malformed", "pass turn or seq, not both")
    if body.seq is not None:
        return await fork_at(services.store, source, body.seq, services.workspaces, services.clock, services.ids)
    return await fork(services.store, source, services.workspaces, services.clock, services.ids, turn=body.turn)


async def post_erase(context: RequestContext, body: EraseBody) -> ErasureReport:
    """Permanently erase the content at some paths, or all of it, including everything derived from it."""
    if body.all == bool(body.paths):
        raise CodedError("request_malformed", "pass either paths or all=true")
    services, name = context.services, context.conversation.id
    request = EraseRequest(conversation=name, paths=body.paths, quotes=body.quotes)
    async with services.hub.release_temporarily(name):
        return await erase(
            services.store,
            request,
            services.workspaces,
            context.principal.user,
            services.clock,
            services.side_file_erasers,
        )


async def delete_conversation(context: RequestContext) -> Response:
    """Permanently delete the conversation and its files."""
    services, name = context.services, context.conversation.id
    await services.reruns.stop(name)
    async with services.hub.release_temporarily(name, stops_turn=True):
        await delete_conversation_data(services.store, name, services.workspaces, services.side_file_erasers)
        services.hub.end_streams(name)
    return Response(status_code=204)


async def resolve_owner(context: RequestContext, user: str) -> str:
    """Return the owner to filter by, empty for all users; raise if the principal may not list those conversations."""
    principal = context.principal
    if user in ("", principal.user):
        return principal.user
    if principal.role != "admin":
        raise CodedError("forbidden", "only admins may list the conversations of other users")
    await context.record_request(owner=user)
    return "" if user == WILDCARD else user
