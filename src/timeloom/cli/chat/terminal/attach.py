"""Reads text files that the user attaches to the next message."""

import os
import stat
from itertools import islice
from pathlib import Path
from typing import Final

from timeloom.cli.chat.display.format import format_size
from timeloom.cli.sanitize import one_line
from timeloom.core.codes import CodedError
from timeloom.core.paths.names import check_name
from timeloom.runtime.turn.attachments import IncomingFile
from timeloom.tools.charsets import decode_text
from timeloom.tools.mime import UNKNOWN_MIME, decode_file_text, guess_mime

MAX_ATTACHMENT_BYTES: Final = 10_000_000
"""Largest file that can be attached. The whole file is held in memory and stored with the conversation."""

MAX_LISTED_NAMES: Final = 10_000
"""Most names of a folder that completion reads, so that a huge folder does not stop the terminal."""


class AttachError(CodedError):
    """A file cannot be attached; the message gives the reason."""

    def __init__(self, message: str) -> None:
        super().__init__("attachment_refused", message)


def read_attachment(typed_path: str) -> IncomingFile:
    """Read the text file at the path that the user typed, which may be quoted; raises `AttachError`."""
    path = Path(typed_path.strip().strip("'\"")).expanduser()
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise AttachError(f"{path.name or typed_path} is not a regular file")
        if found.st_size > MAX_ATTACHMENT_BYTES:
            raise AttachError(
                f"{path.name} has {format_size(found.st_size)}; "
                f"at most {format_size(MAX_ATTACHMENT_BYTES)} can be attached"
            )
        data = path.read_bytes()
    except OSError as error:
        raise AttachError(f"{one_line(typed_path, 80)} cannot be read: {error.strerror}") from error
    mime = guess_mime(path.name)
    if decode_file_text(data, mime) is None:
        raise AttachError(f"{path.name} is not text; only text files can be attached")
    text = decode_text(data)
    if text is None:
        raise AttachError(f"{path.name} is not UTF-8 text; convert it to UTF-8 first")
    check_name(path.name)
    kind = mime if mime.startswith("text/") else "text/plain" if mime == UNKNOWN_MIME else mime
    return IncomingFile(name=path.name, mime=kind, text=text)


def complete_path(typed: str) -> str:
    """Extend the typed path as far as all matching names agree; a single folder gets a slash."""
    folder, slash, start = typed.rpartition("/")
    opening = folder[:1] if folder[:1] in ("'", '"') else ""
    if not slash and start[:1] in ("'", '"'):
        opening, start = start[:1], start[1:]
    prefix = f"{folder}{slash}" if slash else opening
    listed = Path(prefix.removeprefix(opening) or ".").expanduser()
    try:
        with os.scandir(listed) as found:
            names = [
                f"{one.name}/" if one.is_dir() else one.name
                for one in islice(found, MAX_LISTED_NAMES)
                # Hidden files appear once their dot is typed.
                if one.name.startswith(start) and one.name.isprintable() and (start or not one.name.startswith("."))
            ]
    except (OSError, RuntimeError):
        # Nothing can be listed there: the path stays as it was typed, and /attach itself reports the error.
        return typed
    return prefix + os.path.commonprefix(names) if names else typed  # noqa: RUF071 - by characters, as typed
