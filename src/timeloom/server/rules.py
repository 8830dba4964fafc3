"""Rules: what the operator of a server has decided about who may what."""

from ipaddress import ip_address
from typing import Literal

import msgspec

from timeloom.core.codes import CodedError


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for all requests."""

    approvals: Literal["owner", "approver"] = "owner"
    metrics: Literal["token", "open", "off"] = "token"
    hosts: tuple[str, ...] = ()
    """Names by which the server may be addressed; none are all."""
    is_local: bool = False
    """Whether it serves its own machine only, whose names are then the ones it may be addressed by."""
    allow_origins: tuple[str, ...] = ()

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
