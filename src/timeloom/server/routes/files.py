"""Routes of a conversation's downloadable files, by logical path or resource name."""

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
    """Selects a page of the files."""

    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class FilesPage(msgspec.Struct, frozen=True, kw_only=True):
    """Files in the order of creation. `cursor` requests the next page and is empty on the last one."""

    files: tuple[FileCard, ...]
    cursor: str = ""


class FileQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects a file by its logical path. `inline` only applies to types that are safe to show in a browser."""

    path: PathText
    disposition: Disposition = "attachment"


class FileUrlQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects a file by its logical path."""

    path: PathText


class ResourceBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The resource name of a file."""

    rn: Annotated[str, Meta(min_length=1, max_length=MAX_RESOURCE_CHARS)]


async def list_files(call: RequestContext, query: FilesQuery) -> FilesPage:
    """List the downloadable files of the conversation."""
    info = call.conversation
    views = await load_views(call.place.store, info.id)
    found, after = await listed_files(call.place.store, info, views, page_after(query.cursor), query.limit)
    return FilesPage(files=tuple(found), cursor=page_cursor(after))


async def get_file(call: RequestContext, query: FileQuery) -> Download | Response:
    """Download the newest version of a file, or a range of it."""
    place = call.place
    file = await open_file(place.store, call.conversation, file_path(query.path), place.workspaces)
    return await download(call.request, file, query.disposition)


async def get_artifact_url(call: RequestContext, query: FileUrlQuery) -> FileCard:
    """Return the URL, the resource name and the type of a file."""
    place = call.place
    file = await open_file(place.store, call.conversation, file_path(query.path), place.workspaces)
    await file.close()
    return file.card


async def post_by_rn(call: RequestContext, body: ResourceBody) -> FileCard:
    """Resolve a resource name to its file and URL."""
    name, place = parse_resource(body.rn), call.place
    missing = CodedError("path_not_found", "no file has this resource name")
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
