"""The ids port: the only way randomness comes in."""

import secrets
from typing import Protocol


class Ids(Protocol):
    """Gives random bits, from which ids are made."""

    def bits(self) -> int:
        """At least 64 random bits as a number."""
        ...


class RandomIds:
    """The machine's own randomness."""

    def bits(self) -> int:
        return secrets.randbits(64)
