"""Reads the text files that a person attaches to a message."""

import stat
from pathlib import Path
from typing import Final

from timeloom.core.codes import CodedError
from timeloom.core.paths.names import check_name
from timeloom.runtime.turn.attachments import IncomingFile
from timeloom.tools.charsets import decode_text
from timeloom.tools.mime import UNKNOWN_MIME, decode_file_text, guess_mime

MAX_ATTACHMENT_BYTES: Final = 10_000_000
"""Largest file that can be attached. The whole file is held in memory and stored with the conversation."""

_MEGA: Final = 1_000_000


class AttachError(CodedError):
    """A file cannot be attached; the message gives the reason."""

    def __init__(self, message: str) -> None:
        super().__init__("attachment_refused", message)


def read_text_file(path: Path) -> IncomingFile:
    """Return the text file at the path as an attachment; raises `AttachError`."""
    data = _read_bytes(path)
    mime = guess_mime(path.name)
    if decode_file_text(data, mime) is None:
        raise AttachError(f"{path.name} is not text; only text files can be attached")
    text = decode_text(data)
    if text is None:
        raise AttachError(f"{path.name} is not UTF-8 text; convert it to UTF-8 first")
    check_name(path.name)
    kind = mime if mime.startswith("text/") else "text/plain" if mime == UNKNOWN_MIME else mime
    return IncomingFile(name=path.name, mime=kind, text=text)


def _read_bytes(path: Path) -> bytes:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise AttachError(f"{path.name} is not a regular file")
        if found.st_size > MAX_ATTACHMENT_BYTES:
            size, most = (f"{count / _MEGA:.1f} MB" for count in (found.st_size, MAX_ATTACHMENT_BYTES))
            raise AttachError(f"{path.name} has {size}; at most {most} can be attached")
        return path.read_bytes()
    except OSError as error:
        raise AttachError(f"{path.name} cannot be read: {error.strerror}") from error
