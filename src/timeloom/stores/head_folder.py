"""Keeps the heads of each conversation in a file of JSON lines, outside the journal."""

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from timeloom.core.ids import ConversationId, IdError, parse_conversation_id
from timeloom.ports.signer import Signer
from timeloom.stores.disk import FILE_MODE, FOLDER_MODE
from timeloom.wire.heads import Head, decode_heads, encode_head, signed_bytes

_log = logging.getLogger("timeloom.store")


class HeadFolder:
    """Adds a line at each turn's end, after the commit and without a sync.

    After a power cut the newest lines may be missing. A line is never ahead of the journal.
    """

    def __init__(self, root: Path, signer: Signer | None) -> None:
        self._root = root
        self._signer = signer

    def add(self, head: Head) -> None:
        """Append the head to the file of its conversation, signed if there is a signer."""
        line = encode_head(self._sign(head))
        path = self._path(head.conversation)
        try:
            try:
                _append_line(path, line)
            except FileNotFoundError:
                self._root.mkdir(mode=FOLDER_MODE, exist_ok=True)
                _append_line(path, line)
        except OSError as error:
            # The turn is stored. Only the evidence of it outside the journal is missing.
            _log.warning("the head of %s at entry %d was not written: %s", head.conversation, head.seq, error.strerror)

    def write_imported(self, conversation: ConversationId, heads: Sequence[Head]) -> None:
        """Write the file of an imported conversation, with the signatures that its heads came with."""
        try:
            self._root.mkdir(mode=FOLDER_MODE, exist_ok=True)
            self._path(conversation).unlink(missing_ok=True)
            _append_line(self._path(conversation), b"".join(map(encode_head, heads)))
        except OSError as error:
            _log.warning("the heads of %s were not written: %s", conversation, error.strerror)

    def read(self, conversation: ConversationId) -> list[Head]:
        """Return the heads of the conversation, in the order in which they were written."""
        if not _is_safe(conversation):
            return []
        try:
            data = self._path(conversation).read_bytes()
        except OSError:
            return []
        return [head for head in decode_heads(data.splitlines()) if head.conversation == conversation]

    def conversations(self) -> Iterator[ConversationId]:
        """Yield the conversations that have heads."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for path in sorted(self._root.iterdir()):
                if path.suffix == ".jsonl":
                    yield ConversationId(path.stem)

    def remove(self, conversation: ConversationId) -> None:
        """Remove the heads of the conversation."""
        if _is_safe(conversation):
            self._path(conversation).unlink(missing_ok=True)

    def _sign(self, head: Head) -> Head:
        if not self._signer:
            return head
        signature = self._signer.sign(signed_bytes(head)).hex()
        return replace(head, key=self._signer.public_key, signature=signature)

    def _path(self, conversation: ConversationId) -> Path:
        return self._root / f"{conversation}.jsonl"


def _is_safe(conversation: ConversationId) -> bool:
    """Whether the id is one that an append accepts, so that it names a file in the folder."""
    try:
        parse_conversation_id(conversation)
    except IdError:
        return False
    return True


def _append_line(path: Path, line: bytes) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, FILE_MODE)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
