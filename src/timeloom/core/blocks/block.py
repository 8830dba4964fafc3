"""Base class of all blocks: a frozen value with an author, a MIME type and, for most types, a logical path."""

from functools import lru_cache
from typing import ClassVar, Final

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, IdError, MessageId, TurnId, parse_call_id, parse_message_id
from timeloom.core.paths import MAX_NUMBER, MAX_SID, PathError, parse_long

MAX_COUNT: Final = 2**53 - 1
"""Largest seq, size or count: the largest integer that every JSON reader decodes exactly."""


ERASED: Final = "[ERASED]"
"""Text that replaces erased content."""


class BlockError(CodedError):
    """Error for a field that a block's constructor refuses; the message names the field and the expected value."""

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
    """An event in a conversation, without its seq, turn and time; the entry around it adds those."""

    type_name: ClassVar[str]
    """`type` of the JSON form. If classes share a type, `meta.role` in the JSON form distinguishes them."""

    fixed_mime: ClassVar[str] = "text/markdown"
    repeated: ClassVar[tuple[str, ...]] = ()
    """Fields whose text often equals that of the previous block of the type; the store keeps such text once."""
    author: str = "react"
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""

    def mime_type(self) -> str:
        """Return the MIME type of the block's text or bytes."""
        return self.fixed_mime

    def path(self, turn: TurnId) -> str:
        """Return the block's logical path in that turn; empty if only other blocks lead to it."""
        return ""

    def alias(self, turn: TurnId) -> str:
        """Return the path that names the newest block of a numbered family; empty if the family is not numbered."""
        return ""


def need_text(value: object, field: str) -> None:
    """Raise if the text is empty; a reference to stored text is never empty."""
    if value == "":
        raise BlockError(f"{field} must not be empty")


def need_positive(value: int, field: str) -> None:
    """Raise unless the value is a valid round, ordinal or version: 1 to `MAX_NUMBER`."""
    need_count(value, field, least=1, most=MAX_NUMBER)


def need_count(value: int, field: str, *, least: int = 0, most: int = MAX_COUNT) -> None:
    """Raise unless the value is an integer within the bounds; a stored float could never be read back."""
    if type(value) is not int:
        raise BlockError(f"{field} is an integer, got {type(value).__name__}")
    if not least <= value <= most:
        raise BlockError(f"{field} is between {least} and {most}, got {value if abs(value) < 10**20 else 'another'}")


def need_sids(sids: tuple[int, ...]) -> None:
    """Raise unless all values are valid source ids."""
    for sid in sids:
        need_count(sid, "a source id", least=1, most=MAX_SID)


@lru_cache(maxsize=4096)
def need_call(value: CallId) -> None:
    """Raise unless the value is a call id."""
    # Cached, because every part of a call carries the same id.
    try:
        parse_call_id(value)
    except IdError as error:
        raise BlockError(f"tool_call_id: {error}") from error


def need_message(value: MessageId) -> None:
    """Raise unless the value is a message id."""
    try:
        parse_message_id(value)
    except IdError as error:
        raise BlockError(f"message_id: {error}") from error


def need_path(value: str, field: str) -> None:
    """Raise unless the value is a logical path in its canonical spelling."""
    if not _is_canonical_path(value):
        raise BlockError(f"{field} is a logical path such as fi:turn_1.files/report.md, got {value[:60]!r}")


@lru_cache(maxsize=4096)
def _is_canonical_path(value: str) -> bool:
    # Cached, because metadata and content of one artifact carry the same path in a row.
    try:
        return str(parse_long(value)) == value
    except PathError:
        return False
