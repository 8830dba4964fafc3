"""Serves a file, whole or in part, with headers that keep browsers from running it."""

import re
from typing import Final, Literal
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from timeloom.core.codes import CodedError
from timeloom.runtime.read.files import HostedFile
from timeloom.server.http.byte_ranges import parse_range
from timeloom.server.http.problem_json import error_response

Disposition = Literal["attachment", "inline"]

INLINE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "text/plain"})
"""Types that a browser may show inline: images and plain text, which cannot contain scripts."""

FILE_CSP: Final = "sandbox; default-src 'none'; frame-ancestors 'none'"
"""The Content-Security-Policy of every file; it disables a file even if a browser treats it as a page."""

DEFAULT_TYPE: Final = "application/octet-stream"

_MIME: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
_UNSAFE_IN_QUOTES: Final = re.compile(r"[^ !#$&()+,\-.0-9;=@A-Z\[\]^_`a-z{}~]")


class FileDownload(StreamingResponse):
    """The response that streams a file and closes it afterwards."""

    media_type = "*/*"

    def __init__(self, file: HostedFile, start: int, stop: int, status: int, headers: dict[str, str]) -> None:
        super().__init__(file.pieces(start, stop), status, headers, media_type=headers["content-type"])
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self.close()

    async def close(self) -> None:
        """Close the file."""
        await self._file.close()


async def file_response(request: Request, file: HostedFile, disposition: Disposition) -> Response:
    """Return the response for the file: all of it (200), the requested range (206), not modified (304) or 416."""
    size, tag = file.info.size_bytes, f'"{file.sha256}"'
    headers = {
        "content-type": content_type(file.info.mime),
        "content-disposition": content_disposition(file.info.name, disposition, file.info.mime),
        "content-security-policy": FILE_CSP,
        "accept-ranges": "bytes",
        "etag": tag,
    }
    if tag in _parse_etags(request.headers.get("if-none-match", "")):
        await file.close()
        return Response(status_code=304, headers={"etag": tag})
    try:
        # If-Range may also be a date. Files have none, so the whole file is sent.
        range_header = None if request.headers.get("if-range", tag) != tag else request.headers.get("range")
        byte_range = parse_range(range_header, size)
    except CodedError as error:
        await file.close()
        rejection = error_response(error, request.url.path)
        rejection.headers["content-range"] = f"bytes */{size}"
        return rejection
    start, stop = byte_range or (0, size)
    headers["content-length"] = str(stop - start)
    if byte_range is None:
        return FileDownload(file, start, stop, 200, headers)
    headers["content-range"] = f"bytes {start}-{stop - 1}/{size}"
    return FileDownload(file, start, stop, 206, headers)


def content_type(mime: str) -> str:
    """Return the Content-Type header; `application/octet-stream` if the type is malformed."""
    kind = mime.partition(";")[0].strip().lower()
    if not _MIME.fullmatch(kind):
        return DEFAULT_TYPE
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


def content_disposition(name: str, disposition: Disposition, mime: str) -> str:
    """Return the Content-Disposition header, with an ASCII file name for old browsers and the full one for others."""
    kind = disposition if content_type(mime).partition(";")[0] in INLINE_TYPES else "attachment"
    plain = _UNSAFE_IN_QUOTES.sub("_", name)
    extended = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return f'{kind}; filename="{plain}"{extended}'


def _parse_etags(header: str) -> set[str]:
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}
