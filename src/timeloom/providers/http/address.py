"""Parses the URL of a service and builds the head of a request."""

import base64
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

import idna
import msgspec

from timeloom.providers.http.answer import TransportError

PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
_SAFE_CHARACTERS: Final = "/%:@!$&'()*+,;=~-._?"
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?|")


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Host, port and target of a service; `headers` are the ones derived from its URL."""

    host: str
    port: int
    secure: bool
    target: str
    headers: Mapping[str, str]


@lru_cache(maxsize=64)
def parse_address(url: str) -> Address:
    """Parse the URL; raises `TransportError` if it is invalid."""
    try:
        parts = urlsplit(url)
        host, port = _to_ascii(parts.hostname or ""), parts.port
    except ValueError as error:
        raise TransportError("its address is not a URL") from error
    if parts.scheme not in PORTS or not host:
        raise TransportError("its address does not begin with http:// or https:// and a host")
    shown = f"[{host}]" if ":" in host else host
    return Address(
        host=host,
        port=port or PORTS[parts.scheme],
        secure=parts.scheme == "https",
        target=quote(parts.path or "/", safe=_SAFE_CHARACTERS)
        + (f"?{quote(parts.query, safe=_SAFE_CHARACTERS)}" if parts.query else ""),
        headers={
            "host": shown if port in (None, PORTS[parts.scheme]) else f"{shown}:{port}",
            **_basic_authorization(parts),
        },
    )


def request_head(address: Address, headers: Mapping[str, str], length: int) -> bytes:
    """Return the head of a POST with a body of `length` bytes; raises `TransportError` for an invalid header."""
    sent = {**headers, **address.headers, "content-length": str(length)}
    check_headers(sent)
    lines = [f"POST {address.target} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
    return "\r\n".join(lines).encode("ascii")


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise `TransportError` if a header has characters that HTTP does not allow."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            # The value is not shown: it may be a key.
            raise TransportError(f"the header {name!r} has characters that HTTP does not allow")


def _to_ascii(host: str) -> str:
    return host if host.isascii() else idna.encode(host, uts46=True).decode("ascii")


def _basic_authorization(parts: SplitResult) -> Mapping[str, str]:
    """Return the basic authorization of a user name in the URL, which replaces an API key as in other clients."""
    if parts.username is None:
        return {}
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"authorization": f"Basic {base64.b64encode(login.encode()).decode('ascii')}"}
