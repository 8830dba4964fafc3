"""Signs heads with an Ed25519 key, and checks the signatures."""

from pathlib import Path
from typing import Final

from timeloom.core.codes import CodedError
from timeloom.ports.signer import Signer
from timeloom.wire.heads import Head, signed_bytes

MAX_KEY_BYTES: Final = 16 * 1024
"""Maximum size of a key file. A larger one is no Ed25519 key."""

_PACKAGE_HINT: Final = "signatures need the package cryptography; install it with `pip install 'timeloom[signing]'`"


class _Ed25519Signer:
    def __init__(self, pem: bytes) -> None:
        # Lazy: only those who sign need the package, which is large.
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

        key = load_pem_private_key(pem, password=None)
        if not isinstance(key, Ed25519PrivateKey):
            raise TypeError("not an Ed25519 key")
        self._key = key
        self.public_key = key.public_key().public_bytes_raw().hex()

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)


def load_signer(path: Path) -> Signer:
    """Return the signer with the private key of a PEM file; raises `CodedError` that names the fix."""
    pem = _read(path)
    try:
        return _Ed25519Signer(pem)
    except ImportError:
        raise CodedError("setting_invalid", _PACKAGE_HINT) from None
    except (ValueError, TypeError):
        raise CodedError("config_unreadable", f"{path.name} {_expected('private')}") from None


def load_public_key(path: Path) -> str:
    """Return the public key of a PEM file, in hex; raises `CodedError` that names the fix."""
    pem = _read(path)
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415

        key = load_pem_public_key(pem)
    except ImportError:
        raise CodedError("setting_invalid", _PACKAGE_HINT) from None
    except ValueError:
        raise CodedError("config_unreadable", f"{path.name} {_expected('public')}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise CodedError("config_unreadable", f"{path.name} {_expected('public')}")
    return key.public_bytes_raw().hex()


def is_signed_by(head: Head, public_key: str) -> bool:
    """Whether the signature of the head was made with the private key that belongs to the public one."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(head.signature), signed_bytes(head))
    except (InvalidSignature, ValueError):
        return False
    return True


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_KEY_BYTES)
    except OSError as error:
        raise CodedError("config_unreadable", f"the key file {path.name} cannot be read: {error.strerror}") from None


def _expected(kind: str) -> str:
    return f"is no {kind} Ed25519 key in PEM form; `openssl genpkey -algorithm ed25519` makes a private key"
