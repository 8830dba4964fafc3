"""Routes of stored conversations: what is read of them, how they are named and copied, and how they are removed."""

import asyncio
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response, StreamingResponse

from timeloom.core.blocks import Titled
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.paths import has_unseen
from timeloom.ports.reader import ConversationInfo, ConversationPage, ConversationQuery
from timeloom.runtime.erase.erase import Asked, ErasurePlan, ErasureReport, delete, erase
from timeloom.runtime.erase.side_files import forget_elsewhere, typed_in
from timeloom.runtime.fork.fork import Forked, fork, fork_at
from timeloom.runtime.hub.events import ConvStatus, whole_block
from timeloom.runtime.read.export import export_timeline, sources_page
from timeloom.runtime.read.export_chronological import export_restored
from timeloom.server.auth.authenticate import EVERY
from timeloom.server.http.pagination import page_after, page_cursor
from timeloom.server.services import RequestContext
from timeloom.wire.timeline_json import SOURCES_TYPE

MAX_PAGE: Final = 1000
TITLE_CHARS: Final = 300
"""Longest title that a person gives; a list shows no more."""

JSON: Final = "application/json"


class ListQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which conversations are listed."""

    words: str = ""
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    user: str = ""
    """Whose; only an admin can ask for those of somebody else, or with `*` for those of all."""


class TimelineQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of a timeline; `export` is all of it as `conv.timeline.v1`, with what was hidden or edited marked."""

    after: Annotated[int, Meta(ge=0, le=2**53)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 500
    form: Literal["blocks", "export", "restored"] = "blocks"
    """`restored` is all of it in the order in which it began: events by their own times."""


class TimelinePage(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks in their order: the first has the seq `after + 1`, the next page begins after `next`."""

    conversation_id: ConversationId
    after: int
    tail: int
    blocks: tuple[msgspec.Raw, ...]
    next: int | None = None


class SourcesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of the pool."""

    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class SourcesPage(msgspec.Struct, frozen=True, kw_only=True):
    """Rows in the order of their ids; `cursor` asks for what follows and is empty at the end."""

    type: Literal["conv:sources_pool"] = SOURCES_TYPE
    conversation_id: ConversationId
    rows: tuple[msgspec.Raw, ...]
    cursor: str = ""


class TitleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A title that a person gives."""

    title: Annotated[str, Meta(min_length=1, max_length=TITLE_CHARS)]


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """The title is on the timeline."""

    conversation_id: ConversationId
    title: str
    seq: int


class ForkBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Up to where: the end of a turn, by its id or number, or an entry; without either, all of it."""

    turn: str | None = None
    seq: Annotated[int, Meta(ge=1, le=2**53)] | None = None


class EraseBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is removed: what stands at these paths, or all; with `quotes`, also blocks that say the same."""

    paths: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()
    all: bool = False
    quotes: bool = False


async def list_conversations(call: RequestContext, query: ListQuery) -> ConversationPage:
    """The caller's conversations, newest first."""
    return await call.place.store.conversations(
        ConversationQuery(
            tenant=call.tenant,
            project=call.project,
            user=await whose(call, query.user),
            words=query.words,
            cursor=query.cursor,
            limit=query.limit,
        )
    )


async def get_conversation(call: RequestContext) -> ConversationInfo:
    """Whose it is, its title, and where it ends."""
    return call.conversation


async def get_timeline(call: RequestContext, query: TimelineQuery) -> TimelinePage | StreamingResponse:
    """The stored blocks, page by page, as a stream tells them."""
    store, info = call.place.store, call.conversation
    if query.form == "export":
        return StreamingResponse(export_timeline(store, info.id), media_type=JSON)
    if query.form == "restored":
        return StreamingResponse(export_restored(store, info.id), media_type=JSON)
    entries = await store.load(info.id, after=query.after, limit=query.limit)
    blocks = [msgspec.Raw(await whole_block(store, info.tenant, entry)) for entry in entries]
    last = entries[-1].seq if entries else query.after
    return TimelinePage(
        conversation_id=info.id,
        after=query.after,
        tail=max(info.tail, last if entries else 0),
        blocks=tuple(blocks),
        next=last if entries and last < info.tail else None,
    )


async def get_sources(call: RequestContext, query: SourcesQuery) -> SourcesPage:
    """The sources of the conversation in full, as `conv:sources_pool`, page by page."""
    name = call.conversation.id
    rows, after = await sources_page(call.place.store, name, page_after(query.cursor), query.limit)
    return SourcesPage(conversation_id=name, rows=tuple(map(msgspec.Raw, rows)), cursor=page_cursor(after))


async def get_status(call: RequestContext) -> ConvStatus:
    """What the conversation does now: nothing, a turn, or a turn that waits for a person."""
    return await call.place.hub.status(call.conversation.id)


async def post_title(call: RequestContext, body: TitleBody) -> Named:
    """Give the conversation a title of your own."""
    title = " ".join(body.title.split())
    if not title:
        raise CodedError("request_malformed", "a title says something")
    if has_unseen(title):
        raise CodedError("request_malformed", "a title holds a control or invisible character; leave it out")
    name = call.conversation.id
    (entry,) = await call.place.hub.append(name, [Titled(text=title, author=call.caller.user)])
    return Named(conversation_id=name, title=title, seq=entry.seq)


async def post_fork(call: RequestContext, body: ForkBody) -> Forked:
    """A copy that goes on by itself."""
    place, source = call.place, call.conversation.id
    if body.turn is not None and body.seq is not None:
        raise CodedError("request_malformed", "a fork is made at a turn or at a seq; name one of them")
    if body.seq is not None:
        return await fork_at(place.store, source, body.seq, place.workspaces, place.clock, place.ids)
    return await fork(place.store, source, place.workspaces, place.clock, place.ids, turn=body.turn)


async def post_erase(call: RequestContext, body: EraseBody) -> ErasureReport:
    """Remove for good what stands at some paths, or all of it, with all that was made from it."""
    if body.all == bool(body.paths):
        raise CodedError("request_malformed", "name the paths to erase, or say that it is all")
    place, name = call.place, call.conversation.id
    asked = Asked(conversation=name, paths=body.paths, quotes=body.quotes)

    def elsewhere(plan: ErasurePlan) -> None:
        forget_elsewhere(place.data_dir, name, plan.typed)

    async with place.hub.released(name):
        return await erase(place.store, asked, place.workspaces, call.caller.user, place.clock, elsewhere)


async def delete_conversation(call: RequestContext) -> Response:
    """Remove the conversation with its files and without a trace."""
    place, name = call.place, call.conversation.id
    await place.reruns.stop(name)
    async with place.hub.released(name, parks=True):
        typed = await typed_in(place.store, name)
        await asyncio.to_thread(forget_elsewhere, place.data_dir, name, typed)
        await delete(place.store, name, place.workspaces)
        place.hub.deleted(name)
    return Response(status_code=204)


async def whose(call: RequestContext, user: str) -> str:
    """Whose conversations are meant, empty for those of all; raises where they are not for the caller."""
    caller = call.caller
    if user in ("", caller.user):
        return caller.user
    if caller.role != "admin":
        raise CodedError("forbidden", "only an admin asks for the conversations of others")
    await call.record(owner=user)
    return "" if user == EVERY else user
