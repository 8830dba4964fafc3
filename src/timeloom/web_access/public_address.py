"""Tells public IP addresses from those that lead into this machine, its network or nowhere.

The ranges are written here and not taken from `ipaddress.is_global`, whose tables differ between versions of Python.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

IPAddress = IPv4Address | IPv6Address

_NON_PUBLIC_V4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carrier-grade NAT, and the metadata service of one cloud
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # the host of virtual machines in one cloud, inside a public range
            "169.254.0.0/16",  # link-local, and the metadata service of most clouds
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments, and the metadata service of one cloud
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # multicast tunnels
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)

_GLOBAL_V6: Final = IPv6Network("2000::/3")
"""The only range of IPv6 from which public addresses are assigned. It contains no IPv4-mapped, NAT64, unique local,
link-local or multicast address."""

_NON_PUBLIC_V6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which contains an IPv4 address
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)


def is_public(address: IPAddress) -> bool:
    """Return whether the address belongs to the public internet.

    An IPv6 address that contains an IPv4 address is not public, whatever it contains.
    """
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NON_PUBLIC_V4)
    # A zone id chooses an interface of this machine.
    return not address.scope_id and address in _GLOBAL_V6 and not any(address in network for network in _NON_PUBLIC_V6)
