"""The signer port: signs the heads of conversations."""

from typing import Protocol


class Signer(Protocol):
    """Signs with one private key."""

    @property
    def public_key(self) -> str:
        """The public key that verifies the signatures, in hex."""
        ...

    def sign(self, data: bytes) -> bytes:
        """Return the signature of the data."""
        ...
