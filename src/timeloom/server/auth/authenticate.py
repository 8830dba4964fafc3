"""Access: who sends a request, and whether what they ask for is theirs."""

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
"""Stands for all tenants, or for all projects."""

MOST_TOKEN_CHARS: Final = 16_384
"""Longest token that is looked at; those of issuers with many claims have a few thousand characters."""

Role = Literal["user", "approver", "admin"]
Name = Annotated[str, Meta(pattern=r"\A(?:\*|[A-Za-z0-9][A-Za-z0-9_.-]{0,63})\Z")]
User = Annotated[str, Meta(min_length=1, max_length=128)]

Act = Literal["read", "change", "decide"]
"""What is done to a conversation; to decide is to answer a question that a turn waits with."""


class Caller(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whoever has a key: which tenant and project they belong to, and as whom."""

    tenant: Name
    project: Name
    user: User
    role: Role = "user"

    @property
    def id(self) -> str:
        """Who it is among all callers."""
        return f"{self.tenant}/{self.project}/{self.user}"

    @property
    def is_operator(self) -> bool:
        """Whether they look after the whole server."""
        return (self.tenant, self.project, self.role) == (EVERY, EVERY, "admin")

    def is_member(self, tenant: str, project: str) -> bool:
        """Whether they belong to that project."""
        return self.tenant in (tenant, EVERY) and self.project in (project, EVERY)

    def may(self, act: Act, info: ConversationInfo) -> bool:
        """Whether the conversation is theirs, or their role lets them do that to those of others in its project."""
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
    """A key by its hash, and whose it is."""

    sha256: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class TokenError(CodedError):
    """A token was sent, and lets nobody in; the words are for whoever sent it."""

    def __init__(self, why: str) -> None:
        super().__init__("unauthorized", why)


class Register(Protocol):
    """Knows whose tokens are whose."""

    async def whose(self, token: str) -> Caller | None:
        """Whose it is; None where it is not known here. Raises TokenError where it can say what is wrong with it."""
        ...


class Keys:
    """Keys that do not change."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._keys = {key.sha256: key for key in keys}

    async def whose(self, token: str) -> Caller | None:
        """Whose key it is."""
        digest = hashed(token)
        # The hash is what is compared, so a guess tells nothing about the token of a key that is near.
        found = self._keys.get(digest)
        return found if found and hmac.compare_digest(found.sha256, digest) else None


class Doorkeeper:
    """Knows who is there, by all the registers it has."""

    def __init__(self, keys: Iterable[Key] = (), *registers: Register) -> None:
        self._registers = (Keys(keys), *registers)

    async def caller(self, connection: HTTPConnection) -> Caller:
        """Who sends the request; raises where no token of it is known."""
        if not bearer(connection) and connection.cookies.get(cookie_of(connection)) and _is_foreign(connection):
            raise CodedError("forbidden", "a page of another origin sent this request")
        token = token_of(connection)
        if not token:
            raise CodedError("unauthorized", "send the token as `Authorization: Bearer <token>`")
        return await self.need(token)

    async def whose(self, token: str) -> Caller | None:
        """Whose token it is; None where it is not known here."""
        try:
            return await self.need(token)
        except TokenError:
            return None

    async def need(self, token: str) -> Caller:
        """Whose token it is; raises where it is not known here, and says as much of why as a register does."""
        if len(token) > MOST_TOKEN_CHARS:
            raise TokenError(f"a token has at most {MOST_TOKEN_CHARS} characters")
        refused = TokenError("the token is not known here, or not any more")
        for register in self._registers:
            try:
                if known := await register.whose(token):
                    return known
            except TokenError as error:
                refused = error
        raise refused


def bearer(connection: HTTPConnection) -> str:
    """The token in the header; empty where there is none."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def token_of(connection: HTTPConnection) -> str:
    """The token in the header, or else in the cookie; empty where there is none."""
    return bearer(connection) or connection.cookies.get(cookie_of(connection), "")


def cookie_of(connection: HTTPConnection) -> str:
    """The name of the cookie, with the port that was asked: browsers send a host's cookies to all of its ports."""
    port = connection.url.netloc.rpartition(":")[2]
    return f"timeloom_token_{port}" if port.isdecimal() and port.isascii() else "timeloom_token"


def hashed(token: str) -> str:
    """The hash under which a key is known."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_token(ids: Ids) -> str:
    """A token that nobody can guess."""
    return "".join(f"{ids.bits() % 2**64:016x}" for _ in range(4))


def local_key(token: str, user: str) -> Key:
    """The one key of a server that serves its own machine."""
    return Key(sha256=hashed(token), tenant=EVERY, project=EVERY, user=user, role="admin")


def address_of(connection: HTTPConnection) -> str:
    """The address that guesses are counted by: of IPv6 the network, for whoever has one has 2**64 addresses."""
    host = connection.client.host if connection.client else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return str(IPv6Address(int(address) >> 64 << 64)) if isinstance(address, IPv6Address) else host


def _is_foreign(connection: HTTPConnection) -> bool:
    """Whether a page of another origin sent what changes something, or opened a socket; browsers say so."""
    if connection.scope.get("method") in SAFE_METHODS:
        return False
    origin, site = connection.headers.get("origin"), connection.headers.get("sec-fetch-site")
    if not origin:
        return site not in (None, "same-origin", "none")
    scheme = connection.url.scheme.replace("ws", "http", 1)
    return origin != f"{scheme}://{connection.url.netloc}"
