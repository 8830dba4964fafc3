"""Parses the URLs that may be requested: http and https on their usual ports, without credentials."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final, Literal, cast

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.sources import split_url
from timeloom.web_access.public_address import IPAddress

PORTS: Final = {"http": 80, "https": 443}

MAX_URL_CHARS: Final = 8_192
"""Longest URL. Servers refuse longer ones; a smaller limit refuses some links of search results."""

_SHOWN_CHARS: Final = 120


class WebAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A URL that may be requested, in parts. `host` is in ASCII and without brackets."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    target: str

    @property
    def url(self) -> str:
        """The URL in its canonical spelling, without a fragment."""
        return f"{self.scheme}://{self.host_header}{self.target}"

    @property
    def host_header(self) -> str:
        """The value of the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


class AllowedHosts:
    """The hosts that the operator opened by name: `host`, or `host:port` for another port."""

    def __init__(self, entries: Sequence[str] = ()) -> None:
        self._opened = frozenset(pair for entry in entries for pair in _parse_entry(entry))

    def contains(self, host: str, port: int) -> bool:
        """Return whether the operator opened that host and port."""
        return (host, port) in self._opened


def parse_web_address(text: str, allowed: AllowedHosts | None = None) -> WebAddress:
    """Return the address of a URL from a model, a page or a person; raises `address_refused`.

    The spelling is that of browsers, so `http://0x7f.1/` is the host 127.0.0.1. The host is not resolved here.
    """
    if len(text) > MAX_URL_CHARS:
        raise _refuse(text, f"it is longer than {MAX_URL_CHARS:,} characters")
    parts = split_url(text)
    if parts is None:
        raise _refuse(text, "it is no URL with a scheme, a valid host and a valid port")
    if parts.scheme not in PORTS:
        raise _refuse(text, "only http:// and https:// addresses can be requested")
    if parts.has_credentials:
        raise _refuse(text, "it contains a user name or a password")
    host = parts.host.removeprefix("[").removesuffix("]")
    port = int(parts.port.removeprefix(":") or PORTS[parts.scheme])
    if port not in PORTS.values() and not (allowed and allowed.contains(host, port)):
        raise _refuse(text, f"port {port} is not 80 or 443")
    return WebAddress(
        scheme=cast(Literal["http", "https"], parts.scheme), host=host, port=port, target=parts.path + parts.query
    )


def literal_address(host: str) -> IPAddress | None:
    """Return the IP address that the host is; None for a name."""
    for kind in (IPv4Address, IPv6Address):
        try:
            return kind(host)
        except ValueError:
            continue
    return None


def _parse_entry(entry: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of an entry of `web.allow`; without a port, it opens 80 and 443."""
    parts = split_url(f"http://{entry}")
    if parts is None or parts.has_credentials or (parts.path, parts.query) != ("/", ""):
        raise CodedError("setting_invalid", f"web.allow takes host or host:port, got {entry[:_SHOWN_CHARS]!a}")
    host = parts.host.removeprefix("[").removesuffix("]")
    if entry.rstrip().endswith(":80"):
        return [(host, 80)]
    return [(host, int(parts.port[1:]))] if parts.port else [(host, port) for port in PORTS.values()]


def _refuse(text: str, reason: str) -> CodedError:
    return CodedError("address_refused", f"{text[:_SHOWN_CHARS]!a} cannot be requested: {reason}")
