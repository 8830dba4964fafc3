"""Attachments: text files that go with the next message."""

import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from timeloom.cli.terminal.figures import size
from timeloom.cli.terminal.harmless import one_line
from timeloom.core.blocks import Attachment, AttachmentMeta, Digest
from timeloom.core.codes import CodedError
from timeloom.core.ids import TurnId
from timeloom.core.paths import AttachmentPath
from timeloom.core.paths.names import check_name
from timeloom.tools.mime import UNKNOWN, mime_of, text_in

MAX_TEXT_BYTES: Final = 10_000_000
"""Largest file that can be attached."""


class AttachError(CodedError):
    """A file that cannot be attached; the message says why."""

    def __init__(self, message: str) -> None:
        super().__init__("attachment_refused", message)


class AttachedFile(msgspec.Struct, frozen=True):
    """A text file that was read and waits for its message."""

    name: str
    mime: str
    text: str
    size_bytes: int


def read_file(words: str, taken: Iterable[str] = ()) -> AttachedFile:
    """The file that the words name, under a name that is not taken; raises `AttachError`."""
    path = Path(words.strip().strip("'\"")).expanduser()
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise AttachError(f"{path.name or words} is no file")
        if found.st_size > MAX_TEXT_BYTES:
            raise AttachError(f"{path.name} has {size(found.st_size)}; at most {size(MAX_TEXT_BYTES)} can be attached")
        data = path.read_bytes()
    except OSError as error:
        raise AttachError(f"{one_line(words, 80)} cannot be read: {error.strerror}") from error
    mime = mime_of(path.name)
    text = text_in(data, mime)
    if text is None:
        raise AttachError(f"{path.name} is no text; only text can be attached for now")
    name = _free_name(path.name, frozenset(taken))
    check_name(name)
    kind = mime if mime.startswith("text/") else "text/plain" if mime == UNKNOWN else mime
    return AttachedFile(name, kind, text, len(data))


def attachment_blocks(files: Iterable[AttachedFile], turn: TurnId) -> tuple[AttachmentMeta | Attachment, ...]:
    """The blocks that bring the files into the turn: what each is, then its text, which is read by its path."""
    blocks: list[AttachmentMeta | Attachment] = []
    for file in files:
        path = str(AttachmentPath(turn, file.name))
        physical = f"{turn}/attachments/{file.name}"
        digest = Digest(artifact_path=path, physical_path=physical, mime=file.mime, size_bytes=file.size_bytes)
        blocks.append(AttachmentMeta(digest=digest, summary=_summary(file.text)))
        blocks.append(Attachment(artifact_path=path, mime=file.mime, text=file.text))
    return tuple(blocks)


def _summary(text: str) -> str:
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    return f"{lines} line{'' if lines == 1 else 's'}, beginning: {one_line(text, 120)}" if text.strip() else "empty"


def _free_name(name: str, taken: frozenset[str]) -> str:
    if name not in taken:
        return name
    stem, dot, end = name.rpartition(".")
    stem, dot, end = (stem, dot, end) if stem else (name, "", "")
    n = next(n for n in range(2, len(taken) + 3) if f"{stem}-{n}{dot}{end}" not in taken)
    return f"{stem}-{n}{dot}{end}"
