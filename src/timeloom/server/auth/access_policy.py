"""Rules: what the operator of a server has decided about who may what."""

from ipaddress import ip_address
from typing import Final, Literal

import msgspec
from starlette.datastructures import Headers

from timeloom.core.codes import CodedError

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""What changes nothing."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for all requests."""

    approvals: Literal["owner", "approver"] = "owner"
    metrics: Literal["token", "open", "off"] = "token"
    hosts: tuple[str, ...] = ()
    """Names by which the server may be addressed; none are all."""
    is_local: bool = False
    """Whether it serves its own machine only, whose names are then the ones it may be addressed by."""
    allow_origins: tuple[str, ...] = ()

    def check_head(self, method: str, raw_path: bytes, headers: Headers) -> None:
        """Raises where the head of a request is not to be answered, whatever it asks for."""
        for name in ("host", "authorization"):
            # Of two, what stands before the server may have looked at the other.
            if len(headers.getlist(name)) > 1:
                raise CodedError("request_malformed", f"the header {name} is there twice")
        self.check_host(headers.get("host", ""))
        if b"%2f" in raw_path.lower():
            raise CodedError("route_unknown", "no part of an address has a slash in it")
        self._check_site(method, headers)

    def _check_site(self, method: str, headers: Headers) -> None:
        if not self.is_local or method in SAFE_METHODS or headers.get("sec-fetch-site") != "cross-site":
            return
        if headers.get("origin", "") not in self.allow_origins:
            raise CodedError("forbidden", "a page of another site sent this request")

    def check_host(self, said: str) -> None:
        """Raises where the request names another host.

        A page can make its own name lead to this machine, and its requests then look to a browser as if they were for
        the page's own server.
        """
        if not self.hosts and not self.is_local:
            return
        name = _without_port(said).lower()
        if name not in self.hosts and not (self.is_local and is_loopback(name)):
            raise CodedError("host_unknown", "the server has another name; `server.hosts` lists those it has")


def is_loopback(host: str) -> bool:
    """Whether the name or address is one of this machine to itself."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _without_port(said: str) -> str:
    host, colon, port = said.rpartition(":")
    return host if colon and port.isdigit() and not host.endswith(":") else said
