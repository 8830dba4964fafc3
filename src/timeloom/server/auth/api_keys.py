"""API keys: checks a token against the stored hashes of keys."""

import hashlib
import hmac
from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta

from timeloom.ports.ids import Ids
from timeloom.server.auth.principal import WILDCARD, Principal


class ApiKey(Principal, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An API key, stored as a hash, and the principal that it authenticates."""

    sha256: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class ApiKeySet:
    """A fixed set of API keys."""

    def __init__(self, keys: Iterable[ApiKey]) -> None:
        self._keys = {key.sha256: key for key in keys}

    async def find_principal(self, token: str) -> Principal | None:
        """Return the principal of the key; None if it is unknown."""
        digest = hash_token(token)
        # Hashes are compared, so the timing of a guess reveals nothing about a similar token.
        key = self._keys.get(digest)
        return key if key and hmac.compare_digest(key.sha256, digest) else None


def hash_token(token: str) -> str:
    """Return the SHA-256 of the token, which is stored instead of the token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_token(ids: Ids) -> str:
    """Return a random token of 256 bits in hexadecimal."""
    return "".join(f"{ids.bits() % 2**64:016x}" for _ in range(4))


def local_key(token: str, user: str) -> ApiKey:
    """Return the admin key of a server in the mode `local`."""
    return ApiKey(sha256=hash_token(token), tenant=WILDCARD, project=WILDCARD, user=user, role="admin")
