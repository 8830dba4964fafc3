"""Ed25519 keys; only `signing` imports it, because it needs the package cryptography."""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key


class Ed25519Signer:
    """Signs with the private key of a PEM text; raises `ValueError` or `TypeError` if it has none."""

    def __init__(self, pem: bytes) -> None:
        key = load_pem_private_key(pem, password=None)
        if not isinstance(key, Ed25519PrivateKey):
            raise TypeError("not an Ed25519 key")
        self._key = key
        self.public_key = key.public_key().public_bytes_raw().hex()

    def sign(self, data: bytes) -> bytes:
        """Return the signature of the data."""
        return self._key.sign(data)


class Ed25519Verifier:
    """Checks signatures with the public key of a PEM text; raises `ValueError` or `TypeError` if it has none."""

    def __init__(self, pem: bytes) -> None:
        key = load_pem_public_key(pem)
        if not isinstance(key, Ed25519PublicKey):
            raise TypeError("not an Ed25519 key")
        self._key = key

    def is_valid(self, signature: str, data: bytes) -> bool:
        """Whether the signature, in hex, is one of this data with the matching private key."""
        try:
            self._key.verify(bytes.fromhex(signature), data)
        except (InvalidSignature, ValueError):
            return False
        return True
