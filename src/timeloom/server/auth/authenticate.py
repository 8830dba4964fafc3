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

WILDCARD: Final = "*"
"""The wildcard for all tenants or all projects."""

MAX_TOKEN_CHARS: Final = 16_384
"""Longest token that is checked; tokens of issuers with many claims have a few thousand characters."""

Role = Literal["user", "approver", "admin"]
ScopeName = Annotated[str, Meta(pattern=r"\A(?:\*|[A-Za-z0-9][A-Za-z0-9_.-]{0,63})\Z")]
User = Annotated[str, Meta(min_length=1, max_length=128)]

ConversationAccess = Literal["read", "change", "decide"]
"""A kind of access to a conversation; `decide` answers an approval request of a turn."""


class Principal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An authenticated user with their tenant, project and role."""

    tenant: ScopeName
    project: ScopeName
    user: User
    role: Role = "user"

    @property
    def id(self) -> str:
        """An id that is unique among all principals."""
        return f"{self.tenant}/{self.project}/{self.user}"

    @property
    def is_operator(self) -> bool:
        """Whether this is an admin of all tenants and projects."""
        return (self.tenant, self.project, self.role) == (WILDCARD, WILDCARD, "admin")

    def is_member(self, tenant: str, project: str) -> bool:
        """Whether the principal belongs to that project."""
        return self.tenant in (tenant, WILDCARD) and self.project in (project, WILDCARD)

    def can_access(self, access: ConversationAccess, info: ConversationInfo) -> bool:
        """Whether the principal owns the conversation, or their role allows this access in its project."""
        if not self.is_member(info.tenant, info.project):
            return False
        match self.role:
            case "admin":
                return True
            case "approver":
                return access != "change" or self.user == info.user
            case "user":
                return self.user == info.user
            case _:
                assert_never(self.role)


class ApiKey(Principal, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An API key, stored as a hash, and the principal that it authenticates."""

    sha256: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class TokenError(CodedError):
    """The token of a request is not valid; the message is sent to the client."""

    def __init__(self, why: str) -> None:
        super().__init__("unauthorized", why)


class TokenVerifier(Protocol):
    """Maps tokens to principals."""

    async def find_principal(self, token: str) -> Principal | None:
        """Return the principal of the token; None if it is unknown. Raise TokenError if the reason is known."""
        ...


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


class Authenticator:
    """Authenticates requests with one or more token verifiers."""

    def __init__(self, keys: Iterable[ApiKey] = (), *verifiers: TokenVerifier) -> None:
        self._verifiers = (ApiKeySet(keys), *verifiers)

    async def authenticate(self, connection: HTTPConnection) -> Principal:
        """Return the principal that sent the request; raise if it has no valid token."""
        if (
            not bearer_token(connection)
            and connection.cookies.get(cookie_name(connection))
            and _is_cross_origin(connection)
        ):
            raise CodedError("forbidden", "requests from pages of another origin are rejected")
        token = request_token(connection)
        if not token:
            raise CodedError("unauthorized", "send the token as `Authorization: Bearer <token>`")
        return await self.authenticate_token(token)

    async def find_principal(self, token: str) -> Principal | None:
        """Return the principal of the token; None if it is not valid."""
        try:
            return await self.authenticate_token(token)
        except TokenError:
            return None

    async def authenticate_token(self, token: str) -> Principal:
        """Return the principal of the token; raise with the verifier's reason if it is not valid."""
        if len(token) > MAX_TOKEN_CHARS:
            raise TokenError(f"the token is too long; at most {MAX_TOKEN_CHARS} characters are accepted")
        last_error = TokenError("the token is unknown or was revoked")
        for verifier in self._verifiers:
            try:
                if principal := await verifier.find_principal(token):
                    return principal
            except TokenError as error:
                last_error = error
        raise last_error


def bearer_token(connection: HTTPConnection) -> str:
    """Return the token in the Authorization header; empty if there is none."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def request_token(connection: HTTPConnection) -> str:
    """Return the token in the Authorization header, else in the cookie; empty if there is none."""
    return bearer_token(connection) or connection.cookies.get(cookie_name(connection), "")


def cookie_name(connection: HTTPConnection) -> str:
    """Return the name of the cookie. It contains the port, because browsers send cookies to all ports of a host."""
    port = connection.url.netloc.rpartition(":")[2]
    return f"timeloom_token_{port}" if port.isdecimal() and port.isascii() else "timeloom_token"


def hash_token(token: str) -> str:
    """Return the SHA-256 of the token, which is stored instead of the token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_token(ids: Ids) -> str:
    """Return a random token of 256 bits in hexadecimal."""
    return "".join(f"{ids.bits() % 2**64:016x}" for _ in range(4))


def local_key(token: str, user: str) -> ApiKey:
    """Return the admin key of a server in the mode `local`."""
    return ApiKey(sha256=hash_token(token), tenant=WILDCARD, project=WILDCARD, user=user, role="admin")


def client_address(connection: HTTPConnection) -> str:
    """Return the address by which failed attempts are counted: for IPv6 its /64 network, which one client may own."""
    host = connection.client.host if connection.client else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return str(IPv6Address(int(address) >> 64 << 64)) if isinstance(address, IPv6Address) else host


def _is_cross_origin(connection: HTTPConnection) -> bool:
    """Whether a browser reports that a page of another origin sent an unsafe request or opened a socket."""
    if connection.scope.get("method") in SAFE_METHODS:
        return False
    origin, site = connection.headers.get("origin"), connection.headers.get("sec-fetch-site")
    if not origin:
        return site not in (None, "same-origin", "none")
    scheme = connection.url.scheme.replace("ws", "http", 1)
    return origin != f"{scheme}://{connection.url.netloc}"
