"""The operator's access rules: allowed hosts and origins, who decides on approvals, who reads metrics."""

from ipaddress import ip_address
from typing import Final, Literal

import msgspec
from starlette.datastructures import Headers

from timeloom.core.codes import CodedError
from timeloom.server.auth.principal import Role

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""HTTP methods that change nothing."""


class AccessPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Access rules that apply to all requests."""

    approvals: Literal["owner", "approver"] = "owner"
    metrics: Literal["token", "open", "off"] = "token"
    hosts: tuple[str, ...] = ()
    """Host names that requests may use; empty allows all."""
    is_local: bool = False
    """Whether the server serves only its own machine; loopback names are then always allowed."""
    allow_origins: tuple[str, ...] = ()

    def may_decide(self, role: Role) -> bool:
        """Whether a caller with this role, who may read a conversation, may decide on its waiting calls."""
        return self.approvals == "owner" or role != "user"

    def check_head(self, method: str, raw_path: bytes, headers: Headers) -> None:
        """Raise if the host, the path or the headers of a request are not acceptable on any route."""
        for name in ("host", "authorization"):
            # A proxy in front of the server may have checked the other one.
            if len(headers.getlist(name)) > 1:
                raise CodedError("request_malformed", f"the header {name} must occur only once")
        self.check_host(headers.get("host", ""))
        if b"%2f" in raw_path.lower():
            raise CodedError("route_unknown", "no part of a path may contain an encoded slash (%2F)")
        self._check_site(method, headers)

    def _check_site(self, method: str, headers: Headers) -> None:
        if not self.is_local or method in SAFE_METHODS or headers.get("sec-fetch-site") != "cross-site":
            return
        if headers.get("origin", "") not in self.allow_origins:
            raise CodedError("forbidden", "requests from pages of other sites are rejected")

    def check_host(self, host: str) -> None:
        """Raise if the Host header names a host that is not allowed.

        This prevents DNS rebinding: a web page can make its domain resolve to this machine, and a browser then treats
        requests to this server as requests to the page's origin.
        """
        if not self.hosts and not self.is_local:
            return
        name = _without_port(host).lower()
        if name not in self.hosts and not (self.is_local and is_loopback(name)):
            raise CodedError(
                "host_unknown", "the Host header names an unknown host; `server.hosts` lists the allowed names"
            )


def is_loopback(host: str) -> bool:
    """Whether the name or address is a loopback one."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _without_port(host_and_port: str) -> str:
    host, colon, port = host_and_port.rpartition(":")
    return host if colon and port.isdigit() and not host.endswith(":") else host_and_port
