"""Authenticates requests by their tokens and decides which conversations a principal may access."""

import hashlib
import hmac
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from typing import Annotated, Final, Literal, Protocol, assert_never

import msgspec
from msgspec import Meta
from starlette.requests import HTTPConnection

from timeloom.core.codes import CodedError
from timeloom.ports.ids import Ids
from timeloom.ports.reader import ConversationInfo
from timeloom.server.auth.access_policy import SAFE_METHODS

EVERY: Final = "*"
"""The wildcard for all tenants or all projects."""

MOST_TOKEN_CHARS: Final = 16_384
"""Longest token that is checked; tokens of issuers with many claims have a few thousand characters."""

Role = Literal["user", "approver", "admin"]
Name = Annotated[str, Meta(pattern=r"\A(?:\*|[A-Za-z0-9][A-Za-z0-9_.-]{0,63})\Z")]
User = Annotated[str, Meta(min_length=1, max_length=128)]

Act = Literal["read", "change", "decide"]
"""A kind of access to a conversation; `decide` answers an approval request of a turn."""


class Caller(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An authenticated user with their tenant, project and role."""

    tenant: Name
    project: Name
    user: User
    role: Role = "user"

    @property
    def id(self) -> str:
        """An id that is unique among all principals."""
        return f"{self.tenant}/{self.project}/{self.user}"

    @property
    def is_operator(self) -> bool:
        """Whether this is an admin of all tenants and projects."""
        return (self.tenant, self.project, self.role) == (EVERY, EVERY, "admin")

    def is_member(self, tenant: str, project: str) -> bool:
        """Whether the principal belongs to that project."""
        return self.tenant in (tenant, EVERY) and self.project in (project, EVERY)

    def may(self, act: Act, info: ConversationInfo) -> bool:
        """Whether the principal owns the conversation, or their role allows this access in its project."""
        if not self.is_member(info.tenant, info.project):
            return False
        match self.role:
            case "admin":
                return True
            case "approver":
                return act != "change" or self.user == info.user
            case "user":
                return self.user == info.user
            case _:
                assert_never(self.role)


class Key(Caller, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An API key, stored as a hash, and the principal that it authenticates."""

    sha256: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class TokenError(CodedError):
    """The token of a request is not valid; the message is sent to the client."""

    def __init__(self, why: str) -> None:
        super().__init__("unauthorized", why)


class Register(Protocol):
    """Maps tokens to principals."""

    async def whose(self, token: str) -> Caller | None:
        """Return the principal of the token; None if it is unknown. Raise TokenError if the reason is known."""
        ...


class Keys:
    """A fixed set of API keys."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._keys = {key.sha256: key for key in keys}

    async def whose(self, token: str) -> Caller | None:
        """Return the principal of the key; None if it is unknown."""
        digest = hashed(token)
        # Hashes are compared, so the timing of a guess reveals nothing about a similar token.
        found = self._keys.get(digest)
        return found if found and hmac.compare_digest(found.sha256, digest) else None


class Doorkeeper:
    """Authenticates requests with one or more token verifiers."""

    def __init__(self, keys: Iterable[Key] = (), *registers: Register) -> None:
        self._registers = (Keys(keys), *registers)

    async def caller(self, connection: HTTPConnection) -> Caller:
        """Return the principal that sent the request; raise if it has no valid token."""
        if not bearer(connection) and connection.cookies.get(cookie_of(connection)) and _is_foreign(connection):
            raise CodedError("forbidden", "requests from pages of another origin are rejected")
        token = token_of(connection)
        if not token:
            raise CodedError("unauthorized", "send the token as `Authorization: Bearer <token>`")
        return await self.need(token)

    async def whose(self, token: str) -> Caller | None:
        """Return the principal of the token; None if it is not valid."""
        try:
            return await self.need(token)
        except TokenError:
            return None

    async def need(self, token: str) -> Caller:
        """Return the principal of the token; raise with the verifier's reason if it is not valid."""
        if len(token) > MOST_TOKEN_CHARS:
            raise TokenError(f"the token is too long; at most {MOST_TOKEN_CHARS} characters are accepted")
        refused = TokenError("the token is unknown or was revoked")
        for register in self._registers:
            try:
                if known := await register.whose(token):
                    return known
            except TokenError as error:
                refused = error
        raise refused


def bearer(connection: HTTPConnection) -> str:
    """Return the token in the Authorization header; empty if there is none."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def token_of(connection: HTTPConnection) -> str:
    """Return the token in the Authorization header, else in the cookie; empty if there is none."""
    return bearer(connection) or connection.cookies.get(cookie_of(connection), "")


def cookie_of(connection: HTTPConnection) -> str:
    """Return the name of the cookie. It contains the port, because browsers send cookies to all ports of a host."""
    port = connection.url.netloc.rpartition(":")[2]
    return f"timeloom_token_{port}" if port.isdecimal() and port.isascii() else "timeloom_token"


def hashed(token: str) -> str:
    """Return the SHA-256 of the token, which is stored instead of the token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_token(ids: Ids) -> str:
    """Return a random token of 256 bits in hexadecimal."""
    return "".join(f"{ids.bits() % 2**64:016x}" for _ in range(4))


def local_key(token: str, user: str) -> Key:
    """Return the admin key of a server in the mode `local`."""
    return Key(sha256=hashed(token), tenant=EVERY, project=EVERY, user=user, role="admin")


def address_of(connection: HTTPConnection) -> str:
    """Return the address by which failed attempts are counted: for IPv6 its /64 network, which one client may own."""
    host = connection.client.host if connection.client else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return str(IPv6Address(int(address) >> 64 << 64)) if isinstance(address, IPv6Address) else host


def _is_foreign(connection: HTTPConnection) -> bool:
    """Whether a browser reports that a page of another origin sent an unsafe request or opened a socket."""
    if connection.scope.get("method") in SAFE_METHODS:
        return False
    origin, site = connection.headers.get("origin"), connection.headers.get("sec-fetch-site")
    if not origin:
        return site not in (None, "same-origin", "none")
    scheme = connection.url.scheme.replace("ws", "http", 1)
    return origin != f"{scheme}://{connection.url.netloc}"
