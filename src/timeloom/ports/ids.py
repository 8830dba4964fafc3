"""The ids port: the only source of randomness."""

import secrets
from typing import Protocol


class Ids(Protocol):
    """Returns random bits, from which ids are made."""

    def bits(self) -> int:
        """Return at least 64 random bits as a number."""
        ...


class RandomIds:
    """Random bits from the operating system."""

    def bits(self) -> int:
        return secrets.randbits(64)


def random_bytes(count: int) -> bytes:
    """Return random bytes from the operating system, for salts that must be unpredictable."""
    return secrets.token_bytes(count)
