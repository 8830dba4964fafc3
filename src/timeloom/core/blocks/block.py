"""The shape all blocks share: a frozen value with an author, a MIME type and, for most, a logical path."""

from functools import lru_cache
from typing import ClassVar, Final

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, IdError, MessageId, TurnId, call_id, message_id
from timeloom.core.paths import MAX_SID, PathError, parse

MAX_NUMBER: Final = 999_999_999
"""Largest round or ordinal: nine digits, as many as a path takes."""

MAX_COUNT: Final = 2**53 - 1
"""Largest seq, size or count: what every JSON reader takes exactly."""


ERASED: Final = "[ERASED]"
"""What stands where something was erased."""


class BlockError(CodedError):
    """A block that its constructor refuses; the message names the field, what was got and what was expected."""

    def __init__(self, message: str) -> None:
        super().__init__("block_malformed", message)


class Block(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="type",
    gc=False,
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """What happened, without its place and time, which the entry around it gives."""

    type_name: ClassVar[str]
    """The `type` of the JSON form. Two classes share one where the JSON form tells them apart by `meta.role`."""

    fixed_mime: ClassVar[str] = "text/markdown"
    repeated: ClassVar[tuple[str, ...]] = ()
    """Fields whose text is often the same as in the last block of the kind; it is stored once."""
    author: str = "react"
    erased: bool = False
    """Whether what it said was erased for good; its type, place and path are what they were."""

    def mime_type(self) -> str:
        """The MIME type of the block's text or bytes."""
        return self.fixed_mime

    def path(self, turn: TurnId) -> str:
        """The one logical path of this block in that turn; empty where it is reachable only through other blocks."""
        return ""

    def alias(self, turn: TurnId) -> str:
        """The path that the newest block of a numbered family answers to; empty where nothing is numbered."""
        return ""


def need_text(value: object, field: str) -> None:
    """Refuses empty text; a reference to stored text is never empty."""
    if value == "":
        raise BlockError(f"{field} must not be empty")


def need_positive(value: int, field: str) -> None:
    """Refuses numbers that no round, ordinal or version has."""
    need_count(value, field, least=1, most=MAX_NUMBER)


def need_count(value: int, field: str, *, least: int = 0, most: int = MAX_COUNT) -> None:
    """Refuses numbers outside of the bounds."""
    if not least <= value <= most:
        raise BlockError(f"{field} is between {least} and {most}, got {value if abs(value) < 10**20 else 'another'}")


def need_sids(sids: tuple[int, ...]) -> None:
    """Refuses what no source can have as its id."""
    for sid in sids:
        need_count(sid, "a source id", least=1, most=MAX_SID)


@lru_cache(maxsize=4096)
def need_call(value: CallId) -> None:
    """Refuses what is not a call id."""
    # Every part of a call names it.
    try:
        call_id(value)
    except IdError as error:
        raise BlockError(f"tool_call_id: {error}") from error


def need_message(value: MessageId) -> None:
    """Refuses what is not a message id."""
    try:
        message_id(value)
    except IdError as error:
        raise BlockError(f"message_id: {error}") from error


def need_path(value: str, field: str) -> None:
    """Refuses what is not a logical path in its canonical spelling."""
    if not _is_canonical_path(value):
        raise BlockError(f"{field} is a logical path such as fi:turn_1.files/report.md, got {value[:60]!r}")


@lru_cache(maxsize=4096)
def _is_canonical_path(value: str) -> bool:
    # Metadata and content of one artifact name the same path one after the other.
    try:
        return str(parse(value)) == value
    except PathError:
        return False
