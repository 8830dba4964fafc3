"""Heads: the hash of a conversation's last entry at the end of each turn, written outside the journal."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from timeloom.core.ids import ConversationId

LINE_BYTES: Final = 4096
"""Maximum length of a line; a longer one is damaged."""


class Head(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The hash of one entry, which covers all entries before it. `key` and `signature` are set if it is signed."""

    conversation: ConversationId
    seq: int
    ts: str
    hash: str
    key: str = ""
    """The public key, in hex."""
    signature: str = ""
    """The Ed25519 signature of `signed_bytes`, in hex."""


_DECODER: Final = msgspec.json.Decoder(Head)


def signed_bytes(head: Head) -> bytes:
    """Return the bytes that a signature of the head covers."""
    return f"timeloom head 1\n{head.conversation} {head.seq} {head.ts} {head.hash}".encode()


def encode_head(head: Head) -> bytes:
    """Return the head as one line of JSON."""
    return msgspec.json.encode(head) + b"\n"


def decode_heads(lines: Iterable[bytes]) -> Iterator[Head]:
    """Yield the heads of the lines. A line that is none is left out: a crash may have cut it."""
    for line in lines:
        if len(line) <= LINE_BYTES:
            try:
                yield _DECODER.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
