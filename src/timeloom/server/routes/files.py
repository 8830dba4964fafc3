"""Routes of a conversation's downloadable files, by logical path or resource name."""

from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from timeloom.core.codes import CodedError
from timeloom.core.paths import parse_resource
from timeloom.core.paths.resource import MAX_RESOURCE_CHARS
from timeloom.runtime.read.files import FileInfo, list_downloadable_files, open_file
from timeloom.runtime.session.load_views import load_views
from timeloom.server.http.downloads import Disposition, FileDownload, file_response
from timeloom.server.http.pagination import decode_cursor, encode_cursor
from timeloom.server.request_context import RequestContext, mounted_path

PathText = Annotated[str, Meta(min_length=1, max_length=4096)]


class FilesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects a page of the files."""

    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class FilesPage(msgspec.Struct, frozen=True, kw_only=True):
    """Files in the order of creation. `cursor` requests the next page and is empty on the last one."""

    files: tuple[FileInfo, ...]
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


async def list_files(context: RequestContext, query: FilesQuery) -> FilesPage:
    """List the downloadable files of the conversation."""
    info = context.conversation
    views = await load_views(context.services.store, info.id)
    found, after = await list_downloadable_files(
        context.services.store, info, views, decode_cursor(query.cursor), query.limit
    )
    return FilesPage(files=tuple(_addressed(context, file) for file in found), cursor=encode_cursor(after))


async def get_file(context: RequestContext, query: FileQuery) -> FileDownload | Response:
    """Download the newest version of a file, or a range of it."""
    services = context.services
    file = await open_file(services.store, context.conversation, query.path, services.workspaces)
    return await file_response(context.request, file, query.disposition)


async def get_artifact_url(context: RequestContext, query: FileUrlQuery) -> FileInfo:
    """Return the URL, the resource name and the type of a file."""
    services = context.services
    file = await open_file(services.store, context.conversation, query.path, services.workspaces)
    await file.close()
    return _addressed(context, file.info)


async def post_by_rn(context: RequestContext, body: ResourceBody) -> FileInfo:
    """Resolve a resource name to its file and URL."""
    name, services = parse_resource(body.rn), context.services
    missing = CodedError("path_not_found", "no file has this resource name")
    if not context.principal.is_member(name.tenant, name.project):
        raise missing
    try:
        info = await replace(context, tenant=name.tenant, project=name.project).require_conversation(
            name.conversation, "read"
        )
    except CodedError as error:
        if error.code != "conversation_unknown":
            raise
        raise missing from error
    if info.user != name.user:
        raise missing
    file = await open_file(services.store, info, name.path, services.workspaces)
    await file.close()
    return _addressed(context, file.info)


def _addressed(context: RequestContext, file: FileInfo) -> FileInfo:
    """Return the file with the URL that it has below the prefix of this application."""
    return msgspec.structs.replace(file, url=mounted_path(context.request, file.url))
