"""Signs heads with an Ed25519 key, and checks the signatures."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from timeloom.core.codes import CodedError
from timeloom.ports.signer import Signer
from timeloom.wire.heads import Head, signed_bytes

MAX_KEY_BYTES: Final = 16 * 1024
"""Maximum size of a key file. A larger one is no Ed25519 key."""

_PACKAGE_HINT: Final = "signatures need the package cryptography; install it with `pip install 'timeloom[signing]'`"
_MAKE_PRIVATE: Final = "`openssl genpkey -algorithm ed25519` makes one"
_MAKE_PUBLIC: Final = "`openssl pkey -in PRIVATE.pem -pubout` makes it from the private key"


def load_signer(path: Path) -> Signer:
    """Return the signer with the private key of a PEM file; raises `CodedError` that names the fix."""
    return make_signer(_read(path), path.name)


def make_signer(pem: bytes, name: str) -> Signer:
    """Return the signer with this private key in PEM form; errors call the key by `name`."""
    try:
        from timeloom.stores.ed25519 import Ed25519Signer  # noqa: PLC0415 - an extra that takes 20 ms

        return Ed25519Signer(pem)
    except ImportError:
        raise CodedError("setting_invalid", _PACKAGE_HINT) from None
    except (ValueError, TypeError):
        raise CodedError(
            "config_unreadable", f"{name} is no private Ed25519 key in PEM form; {_MAKE_PRIVATE}"
        ) from None


def load_signature_check(path: Path) -> Callable[[Head], bool]:
    """Return a check whether a head is signed with the private key that belongs to the public key of a PEM file.

    Raises `CodedError` that names the fix.
    """
    pem = _read(path)
    try:
        from timeloom.stores.ed25519 import Ed25519Verifier  # noqa: PLC0415 - an extra that takes 20 ms

        verifier = Ed25519Verifier(pem)
    except ImportError:
        raise CodedError("setting_invalid", _PACKAGE_HINT) from None
    except (ValueError, TypeError):
        raise CodedError(
            "config_unreadable", f"{path.name} is no public Ed25519 key in PEM form; {_MAKE_PUBLIC}"
        ) from None
    return lambda head: verifier.is_valid(head.signature, signed_bytes(head))


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_KEY_BYTES)
    except OSError as error:
        raise CodedError("config_unreadable", f"the key file {path.name} cannot be read: {error.strerror}") from None
