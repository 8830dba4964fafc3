"""Parses forms with text files while they arrive and enforces limits; large files are spooled to disk."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile
from typing import Final, TypeVar

import msgspec
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from timeloom.core.codes import CodedError
from timeloom.core.paths.errors import PathError
from timeloom.core.paths.names import check_name
from timeloom.runtime.turn.attachments import IncomingFile
from timeloom.server.http.validation_error import explain_validation_error
from timeloom.tools.charsets import decode_text, find_codec
from timeloom.tools.mime import SUFFIX_TYPES, UNKNOWN_MIME, guess_mime, strip_mime_parameters

FORM: Final = "multipart/form-data"
FILES_FIELD: Final = "files"
"""The form field of attached files; any part with a file name counts as a file."""

FILE_NAME_MISSING: Final = "a file has no name; send its part with a `filename`"

SPOOLED_BYTES: Final = 64 * 1024
"""Bytes of a file kept in memory while it arrives. More costs memory per upload; less writes small texts to disk."""

HEADERS_PER_PART: Final = 8

MIN_BYTES_PER_S: Final = 32 * 1024
"""Slowest accepted upload. A lower rate lets clients hold connections for hours; a higher one rejects slow networks."""

_TEXT: Final = re.compile(r"text/[a-z0-9.+-]{1,100}")

REFUSED_SUFFIXES: Final = tuple(sorted(suffix for suffix, mime in SUFFIX_TYPES.items() if not _TEXT.fullmatch(mime)))
"""Suffixes of file names whose types are not text."""

Body = TypeVar("Body")


class UploadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one upload request."""

    max_bytes: int = 10 * 1024 * 1024
    """For all files together."""
    max_files: int = 10
    max_field_bytes: int = 2 * 1024 * 1024
    """For all fields together."""
    base_timeout_s: float = 30.0
    """Seconds that a request may take in addition to the time for its bytes."""


def is_form(request: Request) -> bool:
    """Whether the request is a multipart form."""
    return strip_mime_parameters(request.headers.get("content-type", "")) == FORM


async def read_form(kind: type[Body], request: Request, limits: UploadLimits) -> tuple[Body, tuple[IncomingFile, ...]]:
    """Return the form's fields as a body of that type, and its files; raise if it is invalid or too large."""
    most_bytes = limits.max_bytes + limits.max_field_bytes
    declared = request.headers.get("content-length", "")
    due_bytes = int(declared[:20]) if declared.isdigit() else most_bytes
    if due_bytes > most_bytes:
        raise _too_large_error(f"the form is too large; at most {most_bytes} bytes are accepted")
    most_s = limits.base_timeout_s + due_bytes / MIN_BYTES_PER_S
    with ExitStack() as files:
        form = _FormParser(_parse_boundary(request), limits, files)
        try:
            async with asyncio.timeout(most_s):
                await _feed_form(form, request.stream(), most_bytes)
        except TimeoutError as error:
            raise CodedError("request_timeout", f"the form did not arrive within {most_s:g} seconds") from error
        body = _convert_fields(form.fields, kind)
        return body, await asyncio.to_thread(form.text_files)


async def _feed_form(form: "_FormParser", chunks: AsyncIterator[bytes], most_bytes: int) -> None:
    received_bytes = 0
    async for chunk in chunks:
        received_bytes += len(chunk)
        if received_bytes > most_bytes:
            raise _too_large_error(f"the form is too large; at most {most_bytes} bytes are accepted")
        try:
            # In a thread, because large files are written to disk.
            await asyncio.to_thread(form.feed, chunk)
        except FormParserError as error:
            raise _malformed_error(f"the form cannot be read: {error}") from error
    if not form.is_complete:
        raise _malformed_error("the form ends before its last boundary")


@dataclass(slots=True)
class _FormPart:
    """One part of the form: a field, or a file where it has a file name."""

    headers: dict[str, bytes] = field(default_factory=dict[str, bytes])
    name: str = ""
    file_name: str | None = None
    mime: str = ""
    charset: str = ""
    """The charset that the client declared; empty if none."""
    value: bytearray = field(default_factory=bytearray)
    file: SpooledTemporaryFile[bytes] | None = None


class _FormParser:
    """Parses a form chunk by chunk."""

    def __init__(self, boundary: bytes, limits: UploadLimits, files: ExitStack) -> None:
        self._limits = limits
        self._files = files
        self._file_bytes = self._field_bytes = 0
        self._header = (bytearray(), bytearray())
        self._part = _FormPart()
        self._file_parts: list[_FormPart] = []
        self.fields: dict[str, str] = {}
        self.is_complete = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin_part,
                "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
                "on_header_end": self._end_header,
                "on_headers_finished": self._open_part,
                "on_part_data": lambda data, start, end: self._add_data(data[start:end]),
                "on_part_end": self._end_part,
                "on_end": self._complete,
            },
            max_header_count=HEADERS_PER_PART,
        )

    def feed(self, chunk: bytes) -> None:
        """Parse the next chunk."""
        self._parser.write(chunk)

    def text_files(self) -> tuple[IncomingFile, ...]:
        """Read and return the files."""
        return tuple(_read_text_file(part) for part in self._file_parts)

    def _begin_part(self) -> None:
        self._part = _FormPart()

    def _end_header(self) -> None:
        name, value = self._header
        self._part.headers[name.decode("latin-1").lower()] = bytes(value)
        self._header = (bytearray(), bytearray())

    def _open_part(self) -> None:
        part = self._part
        disposition, options = parse_options_header(part.headers.get("content-disposition", b""))
        if disposition != b"form-data" or b"name" not in options:
            raise _malformed_error("a part of the form has no name")
        part.name = _decode_utf8(options[b"name"], "the name of a field")
        if b"filename" in options:
            part.file_name = _decode_utf8(options[b"filename"], "the name of a file")
            self._open_file(part, part.file_name)
        elif part.name == FILES_FIELD:
            raise _malformed_error(FILE_NAME_MISSING)
        elif part.name in self.fields:
            raise _malformed_error(f"the field {part.name[:40]!r} must occur only once")

    def _open_file(self, part: _FormPart, name: str) -> None:
        if not name:
            # Browsers send an empty file name if no file was chosen.
            return
        _check_file_name(name)
        declared = part.headers.get("content-type", b"")
        part.mime = _text_type(name, declared.decode("latin-1"))
        part.charset = parse_options_header(declared)[1].get(b"charset", b"").decode("latin-1")
        if part.charset and not find_codec(part.charset):
            raise _not_text_error(name, f"the charset {part.charset[:40]!r} is not supported; send it as UTF-8")
        if len(self._file_parts) == self._limits.max_files:
            raise _too_large_error(f"too many files; at most {self._limits.max_files} are accepted per request")
        part.file = self._files.enter_context(_open_spool_file())
        self._file_parts.append(part)

    def _add_data(self, data: bytes) -> None:
        part = self._part
        if part.file is not None:
            self._file_bytes += len(data)
            if self._file_bytes > self._limits.max_bytes:
                raise _too_large_error(f"the files are too large; at most {self._limits.max_bytes} bytes are accepted")
            part.file.write(data)
        elif part.file_name is not None:
            raise _malformed_error(FILE_NAME_MISSING)
        else:
            self._field_bytes += len(data)
            if self._field_bytes > self._limits.max_field_bytes:
                raise _too_large_error(f"the fields are too large; at most {self._limits.max_field_bytes} bytes fit")
            part.value += data

    def _end_part(self) -> None:
        if self._part.file_name is None:
            self.fields[self._part.name] = _decode_utf8(bytes(self._part.value), f"the field {self._part.name[:40]!r}")

    def _complete(self) -> None:
        self.is_complete = True


def _open_spool_file() -> SpooledTemporaryFile[bytes]:
    return SpooledTemporaryFile(SPOOLED_BYTES)


def _parse_boundary(request: Request) -> bytes:
    _, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if not 0 < len(boundary) <= 70:
        raise _malformed_error("Content-Type must contain a boundary of 1 to 70 characters")
    return boundary


def _text_type(name: str, declared: str) -> str:
    """Return the text type of the file, guessed from its name if the client declared none; raise if it is not text."""
    mime = strip_mime_parameters(declared)
    if mime in ("", UNKNOWN_MIME):
        mime = guess_mime(name)
        mime = "text/plain" if mime == UNKNOWN_MIME else mime
    if not _TEXT.fullmatch(mime):
        raise _not_text_error(name, "only text can be attached for now")
    return mime


def _read_text_file(part: _FormPart) -> IncomingFile:
    name = part.file_name or ""
    assert part.file is not None
    part.file.seek(0)
    text = decode_text(part.file.read(), part.charset)
    if text is None:
        charset = part.charset[:40] or "UTF-8"
        raise _not_text_error(
            name, f"it is not {charset} text; send UTF-8 or declare the charset: text/plain; charset=…"
        )
    return IncomingFile(name=name, mime=part.mime, text=text)


def _convert_fields(fields: dict[str, str], kind: type[Body]) -> Body:
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _malformed_error(f"the form is invalid: {explain_validation_error(error, kind)}") from error


def _decode_utf8(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _malformed_error(f"{name} is not UTF-8") from error


def _malformed_error(message: str) -> CodedError:
    return CodedError("request_malformed", message)


def _too_large_error(message: str) -> CodedError:
    return CodedError("request_too_large", message)


def _check_file_name(name: str) -> None:
    try:
        check_name(name)
    except PathError as error:
        raise PathError(error.code, f"{name[:60]!r} cannot be attached: {error}") from error


def _not_text_error(name: str, why: str) -> CodedError:
    return CodedError("attachment_type_unavailable", f"{name[:60]!r} cannot be attached: {why}")
