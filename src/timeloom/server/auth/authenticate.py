"""Authenticates requests by the tokens in their headers and cookies."""

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from typing import Final, Protocol

from starlette.requests import HTTPConnection

from timeloom.core.codes import CodedError
from timeloom.server.auth.access_policy import SAFE_METHODS
from timeloom.server.auth.api_keys import ApiKey, ApiKeySet
from timeloom.server.auth.principal import Principal

MAX_TOKEN_CHARS: Final = 16_384
"""Longest token that is checked; tokens of issuers with many claims have a few thousand characters."""

FORM_TYPE: Final = "application/x-www-form-urlencoded"
"""The media type of a form that a page submits without a script and without files."""

ON_AUTHENTICATED: Final = "timeloom.on_authenticated"
"""The key of an ASGI scope with the function to call once a request of its connection had a valid token."""

SIMPLE_TYPES: Final = (FORM_TYPE, "multipart/form-data", "text/plain")
"""Media types that a page of any origin can send to any server (the CORS-safelisted ones)."""


class TokenError(CodedError):
    """The token of a request is not valid; the message is sent to the client."""

    def __init__(self, why: str) -> None:
        super().__init__("unauthorized", why)


class TokenVerifier(Protocol):
    """Maps tokens to principals."""

    async def find_principal(self, token: str) -> Principal | None:
        """Return the principal of the token; None if it is unknown. Raise TokenError if the reason is known."""
        ...


class Authenticator:
    """Authenticates requests with one or more token verifiers."""

    signs_in = True
    """Whether people sign in with a token at this server."""

    def __init__(self, keys: Iterable[ApiKey] = (), *verifiers: TokenVerifier) -> None:
        self._verifiers = (ApiKeySet(keys), *verifiers)

    async def authenticate(self, connection: HTTPConnection) -> Principal:
        """Return the principal that sent the request; raise if it has no valid token."""
        if (
            not bearer_token(connection)
            and connection.cookies.get(cookie_name(connection))
            and is_cross_origin(connection)
        ):
            raise CodedError("forbidden", "requests from pages of another origin are rejected")
        token = request_token(connection)
        if not token:
            raise CodedError("unauthorized", "send the token as `Authorization: Bearer <token>`")
        return await self.authenticate_token(token)

    def credential(self, connection: HTTPConnection) -> object:
        """Return what `find_principal` takes to check later that the sender of the request is still the same."""
        return request_token(connection)

    async def find_principal(self, credential: object) -> Principal | None:
        """Return the principal of the credential; None if it is not valid."""
        try:
            return await self.authenticate_token(str(credential))
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


def is_native_form(connection: HTTPConnection) -> bool:
    """Whether a form of a page was submitted without a script."""
    return _media_type(connection) == FORM_TYPE


def is_same_origin(connection: HTTPConnection) -> bool:
    """Whether a request to sign in or out comes from a page of this server, or from a program.

    A browser reports the origin of the page in `Origin`, and newer ones also in `Sec-Fetch-Site`. A page without
    referrers sends `Origin: null` with its forms. A page of another origin cannot send JSON without asking the server
    first, so JSON without both headers was sent by a program.
    """
    origin, site = connection.headers.get("origin"), connection.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin" and origin in (None, "null", _own_origin(connection))
    if origin is not None:
        return origin == _own_origin(connection)
    return _media_type(connection) not in SIMPLE_TYPES


def is_cross_origin(connection: HTTPConnection) -> bool:
    """Whether a browser reports that a page of another origin sent an unsafe request or opened a socket."""
    if connection.scope.get("method") in SAFE_METHODS:
        return False
    origin, site = connection.headers.get("origin"), connection.headers.get("sec-fetch-site")
    if not origin:
        return site not in (None, "same-origin", "none")
    return origin != _own_origin(connection)


def client_address(connection: HTTPConnection) -> str:
    """Return the address by which failed attempts are counted."""
    return group_address(connection.client.host if connection.client else "")


def group_address(host: str) -> str:
    """Return the address by which clients are counted: for IPv6 its /64 network, which one client may own."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return str(IPv6Address(int(address) >> 64 << 64)) if isinstance(address, IPv6Address) else host


def _own_origin(connection: HTTPConnection) -> str:
    scheme = connection.url.scheme.replace("ws", "http", 1)
    return f"{scheme}://{connection.url.netloc}"


def _media_type(connection: HTTPConnection) -> str:
    return connection.headers.get("content-type", "").partition(";")[0].strip().lower()
