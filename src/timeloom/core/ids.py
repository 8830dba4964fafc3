"""Identifiers: the shapes of turn, call, conversation and other ids, made from a time and random bits handed in."""

import re
from typing import NewType

TurnId = NewType("TurnId", str)
"""`turn_<epoch_ms>_<6 base36>` when made here; from outside any `turn_…` of letters, digits, `_` and `-`."""

CallId = NewType("CallId", str)
"""12 hex digits when made here; any word of letters, digits, `_` and `-` when it comes from outside."""

ConversationId = NewType("ConversationId", str)
PlanId = NewType("PlanId", str)
MessageId = NewType("MessageId", str)

MAX_ID_CHARS = 128
"""Longest id accepted. Smaller refuses foreign ids in use; larger lets names grow past the 255 of file systems."""

_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_PLAN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_:-]*")


class IdError(ValueError):
    """An id that does not have its shape; the message shows what was got and what was expected."""


def turn_id(text: str) -> TurnId:
    """The text as a turn id."""
    if not text.startswith("turn_") or len(text) == len("turn_"):
        raise IdError(f"a turn id starts with 'turn_' and a word, got {text[:40]!r}")
    return TurnId(_checked(text, _WORD, "turn id"))


def call_id(text: str) -> CallId:
    """The text as a call id."""
    return CallId(_checked(text, _WORD, "call id"))


def conversation_id(text: str) -> ConversationId:
    """The text as a conversation id."""
    return ConversationId(_checked(text, _WORD, "conversation id"))


def message_id(text: str) -> MessageId:
    """The text as the id of a user message or external event."""
    return MessageId(_checked(text, _WORD, "message id"))


def plan_id(text: str) -> PlanId:
    """The text as a plan id, in which `:` may stand too (`plan:turn_…:abcd`)."""
    return PlanId(_checked(text, _PLAN, "plan id"))


def make_turn_id(epoch_ms: int, random_bits: int) -> TurnId:
    """The turn id of that time; only the lowest 36**6 of the random bits count."""
    return TurnId(f"turn_{epoch_ms}_{_base36(random_bits % 36**6, 6)}")


def make_call_id(random_bits: int) -> CallId:
    """Twelve hex digits of the random bits."""
    return CallId(f"{random_bits % 16**12:012x}")


def make_conversation_id(epoch_ms: int, random_bits: int) -> ConversationId:
    """A conversation id that sorts by time."""
    return ConversationId(f"conv_{epoch_ms}_{_base36(random_bits % 36**8, 8)}")


def make_plan_id(turn: TurnId, random_bits: int) -> PlanId:
    """A plan id that names the turn it was made in."""
    return PlanId(f"plan:{turn}:{random_bits % 16**4:04x}")


def _checked(text: str, shape: re.Pattern[str], what: str) -> str:
    if len(text) > MAX_ID_CHARS or not shape.fullmatch(text):
        raise IdError(f"a {what} has 1 to {MAX_ID_CHARS} letters, digits, '_' or '-', got {text[:40]!r}")
    return text


def _base36(number: int, width: int) -> str:
    digits = ""
    for _ in range(width):
        number, digit = divmod(number, 36)
        digits = _BASE36[digit] + digits
    return digits
