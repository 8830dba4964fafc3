"""Keeps snapshots of conversations as files, which are written without syncing and ignored if damaged."""

import contextlib
import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.stores.disk import FOLDER_MODE

_HEADER_BYTES: Final = 4096
"""Maximum length of the header line; a longer one counts as damaged."""


class _SnapshotHeader(msgspec.Struct, frozen=True):
    conversation: str
    number: int
    version: str
    seq: int
    sha256: str


class SnapshotFolder:
    """Keeps one file per conversation and version.

    The number tells a conversation from a deleted one with the same id.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def save(self, conversation: ConversationId, number: int, seq: int, version: str, data: bytes) -> None:
        """Store the snapshot, unless a newer one exists."""
        path = self._path(conversation, version)
        header = _make_header(conversation, number, version, seq, data)
        if self._has_newer(path, header):
            return
        for folder in (self._root, path.parent.parent, path.parent):
            folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(msgspec.json.encode(header) + b"\n" + data)
        Path(file.name).replace(path)

    def load(self, conversation: ConversationId, number: int, version: str) -> tuple[int, bytes] | None:
        """Return the seq and data of the snapshot; None if it is missing, damaged or of another conversation."""
        try:
            line, _, data = self._path(conversation, version).read_bytes().partition(b"\n")
            header = msgspec.json.decode(line, type=_SnapshotHeader)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return (header.seq, data) if header == _make_header(conversation, number, version, header.seq, data) else None

    def remove(self, conversation: ConversationId) -> None:
        """Remove all snapshots of the conversation."""
        shutil.rmtree(self._folder(conversation), ignore_errors=True)

    def remove_all(self) -> int:
        """Remove all snapshots and return how many there were."""
        count = sum(1 for _ in self._root.glob("*/*/*"))
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._root)
        return count

    def _has_newer(self, path: Path, header: _SnapshotHeader) -> bool:
        """Whether the header of the file names a newer snapshot of the same view; only `load` checks the data."""
        try:
            with path.open("rb") as file:
                existing = msgspec.json.decode(file.readline(_HEADER_BYTES), type=_SnapshotHeader)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return False
        return (existing.conversation, existing.number, existing.version) == (
            header.conversation,
            header.number,
            header.version,
        ) and existing.seq > header.seq

    def _folder(self, conversation: ConversationId) -> Path:
        name = hashlib.sha256(conversation.encode()).hexdigest()
        return self._root / name[:2] / name

    def _path(self, conversation: ConversationId, version: str) -> Path:
        return self._folder(conversation) / hashlib.sha256(version.encode()).hexdigest()[:32]


def _make_header(conversation: ConversationId, number: int, version: str, seq: int, data: bytes) -> _SnapshotHeader:
    # The hash includes the seq: data loaded for another seq would make the views wrong.
    return _SnapshotHeader(conversation, number, version, seq, hashlib.sha256(b"%d " % seq + data).hexdigest())
