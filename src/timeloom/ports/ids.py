"""The ids port: the only source of randomness."""

import os
import secrets
from typing import Final, Protocol

POOLED_TOKENS: Final = 128
"""Tokens that one system call draws. More save nothing measurable and keep more of them in memory."""


class Ids(Protocol):
    """Returns random bits, from which ids are made."""

    def bits(self) -> int:
        """Return at least 64 random bits as a number."""
        ...


class RandomIds:
    """Random bits from the operating system."""

    def bits(self) -> int:
        return secrets.randbits(64)


class RandomTokens:
    """Random bytes from the operating system, for salts that must be unpredictable; drawn many at a time.

    Each token is returned once. A forked process draws its own.
    """

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._tokens: list[bytes] = []
        os.register_at_fork(after_in_child=self._tokens.clear)

    def take(self) -> bytes:
        """Return a token that was not returned before, from any thread."""
        try:
            return self._tokens.pop()
        except IndexError:
            drawn, size = secrets.token_bytes(self._size_bytes * POOLED_TOKENS), self._size_bytes
            self._tokens += [drawn[at : at + size] for at in range(size, len(drawn), size)]
            return drawn[:size]
