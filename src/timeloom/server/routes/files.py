"""Routes of files: what a conversation has that others may have, by its path or by its resource name."""

from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from timeloom.core.codes import CodedError
from timeloom.core.paths import parse_resource
from timeloom.core.paths.resource import MAX_RESOURCE_CHARS
from timeloom.runtime.read.files import FileCard, file_path, listed_files, open_file
from timeloom.runtime.session.load_views import load_views
from timeloom.server.http.downloads import Disposition, Download, download
from timeloom.server.http.pagination import page_after, page_cursor
from timeloom.server.services import RequestContext

PathText = Annotated[str, Meta(min_length=1, max_length=4096)]


class FilesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of the list."""

    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class FilesPage(msgspec.Struct, frozen=True, kw_only=True):
    """Files in the order they were made; `cursor` asks for what follows and is empty at the end."""

    files: tuple[FileCard, ...]
    cursor: str = ""


class FileQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which file, by its logical path, and whether a browser may show it; most types are only ever kept."""

    path: PathText
    disposition: Disposition = "attachment"


class FileUrlQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which file, by its logical path."""

    path: PathText


class ResourceBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file by its resource name."""

    rn: Annotated[str, Meta(min_length=1, max_length=MAX_RESOURCE_CHARS)]


async def list_files(call: RequestContext, query: FilesQuery) -> FilesPage:
    """The files of the conversation that can be had, page by page."""
    info = call.conversation
    views = await load_views(call.place.store, info.id)
    found, after = await listed_files(call.place.store, info, views, page_after(query.cursor), query.limit)
    return FilesPage(files=tuple(found), cursor=page_cursor(after))


async def get_file(call: RequestContext, query: FileQuery) -> Download | Response:
    """The newest version of a file, or the range of it that is asked for."""
    place = call.place
    file = await open_file(place.store, call.conversation, file_path(query.path), place.workspaces)
    return await download(call.request, file, query.disposition)


async def get_artifact_url(call: RequestContext, query: FileUrlQuery) -> FileCard:
    """Where a file is served, under which resource name, and what it is."""
    place = call.place
    file = await open_file(place.store, call.conversation, file_path(query.path), place.workspaces)
    await file.close()
    return file.card


async def post_by_rn(call: RequestContext, body: ResourceBody) -> FileCard:
    """What a resource name stands for, and where it is served."""
    name, place = parse_resource(body.rn), call.place
    missing = CodedError("path_not_found", "there is no file of that resource name here")
    if not call.caller.is_member(name.tenant, name.project):
        raise missing
    try:
        info = await replace(call, tenant=name.tenant, project=name.project).visible(name.conversation, "read")
    except CodedError as error:
        if error.code != "conversation_unknown":
            raise
        raise missing from error
    if info.user != name.user:
        raise missing
    file = await open_file(place.store, info, name.path, place.workspaces)
    await file.close()
    return file.card
