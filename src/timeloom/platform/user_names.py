"""Validates names of users, which identify people in stored conversations, logs, budgets and lists."""

from typing import Final

from timeloom.core.paths import has_invisible_characters

MAX_USER_CHARS: Final = 128
"""Longest user name. A smaller limit refuses subjects of some issuers; a larger one makes lists unreadable."""

REQUIREMENT: Final = (
    f"1 to {MAX_USER_CHARS} visible characters, without control, invisible or direction-changing ones, and without a "
    "space at either end"
)


def is_user_name(text: str) -> bool:
    """Return whether the text can name a user, so that no two names look the same for an invisible reason."""
    return (
        0 < len(text) <= MAX_USER_CHARS
        and text == text.strip()
        # Of the spaces, only the plain one is printable.
        and text.isprintable()
        and not has_invisible_characters(text)
    )


def check_user_name(text: str) -> None:
    """Raise `ValueError` if the text cannot name a user."""
    if not is_user_name(text):
        raise ValueError(f"a user name must have {REQUIREMENT}, got {text[:40]!a}")
