"""Validates and creates ids of turns, calls, conversations, messages and plans from a given time and random bits."""

import re
from typing import NewType

TurnId = NewType("TurnId", str)
"""`turn_<epoch_ms>_<6 base36>` if created here; a foreign id is any `turn_…` of letters, digits, `_` and `-`."""

CallId = NewType("CallId", str)
"""12 hex digits if created here; a foreign id is any word of letters, digits, `_` and `-`."""

ConversationId = NewType("ConversationId", str)
PlanId = NewType("PlanId", str)
MessageId = NewType("MessageId", str)

MAX_ID_CHARS = 128
"""Longest accepted id. A smaller limit refuses foreign ids in use; a larger one exceeds the 255 bytes of a file
name."""

_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_PLAN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_:-]*")


class IdError(ValueError):
    """Error for an id of the wrong shape; the message shows the received text and the expected shape."""


def parse_turn_id(text: str) -> TurnId:
    """Return the text as a turn id; raise `IdError` if it is none."""
    if not text.startswith("turn_") or len(text) == len("turn_"):
        raise IdError(f"a turn id starts with 'turn_' and a word, got {text[:40]!r}")
    return TurnId(_check_id(text, _WORD, "turn id"))


def parse_call_id(text: str) -> CallId:
    """Return the text as a call id; raise `IdError` if it is none."""
    return CallId(_check_id(text, _WORD, "call id"))


def parse_conversation_id(text: str) -> ConversationId:
    """Return the text as a conversation id; raise `IdError` if it is none."""
    return ConversationId(_check_id(text, _WORD, "conversation id"))


def parse_message_id(text: str) -> MessageId:
    """Return the text as the id of a user message or external event; raise `IdError` if it is none."""
    return MessageId(_check_id(text, _WORD, "message id"))


def parse_plan_id(text: str) -> PlanId:
    """Return the text as a plan id, which may also contain `:` (`plan:turn_…:abcd`); raise `IdError` if it is none."""
    return PlanId(_check_id(text, _PLAN, "plan id"))


def make_turn_id(epoch_ms: int, random_bits: int) -> TurnId:
    """Return a new turn id for that time; it uses the random bits modulo 36**6."""
    return TurnId(f"turn_{epoch_ms}_{_base36(random_bits % 36**6, 6)}")


def make_call_id(random_bits: int) -> CallId:
    """Return a new call id: twelve hex digits of the random bits."""
    return CallId(f"{random_bits % 16**12:012x}")


def make_conversation_id(epoch_ms: int, random_bits: int) -> ConversationId:
    """Return a new conversation id that sorts by time."""
    return ConversationId(f"conv_{epoch_ms}_{_base36(random_bits % 36**8, 8)}")


def make_plan_id(turn: TurnId, random_bits: int) -> PlanId:
    """Return a new plan id that contains the id of its turn."""
    return PlanId(f"plan:{turn}:{random_bits % 16**4:04x}")


def _check_id(text: str, shape: re.Pattern[str], what: str) -> str:
    if len(text) > MAX_ID_CHARS or not shape.fullmatch(text):
        raise IdError(f"a {what} has 1 to {MAX_ID_CHARS} letters, digits, '_' or '-', got {text[:40]!r}")
    return text


def _base36(number: int, width: int) -> str:
    digits = ""
    for _ in range(width):
        number, digit = divmod(number, 36)
        digits = _BASE36[digit] + digits
    return digits
