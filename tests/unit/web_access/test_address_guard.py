"""No request reaches a non-public address, in whatever spelling, through whatever redirect or resolver."""

import asyncio
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.web_access.web_harness import FixedResolver, RecordingNetwork, always, reply, web_server
from timeloom.core.codes import CodedError
from timeloom.web_access.download import Download, Downloader, DownloadError
from timeloom.web_access.guarded_network import GuardedNetwork, resolve_with_system
from timeloom.web_access.public_address import is_public
from timeloom.web_access.web_address import AllowedHosts, parse_web_address

PRIVATE_V4 = (
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.1.2"),
    *("168.63.129.16", "169.254.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.254", "192.0.0.192", "192.0.2.9"),
    *("192.88.99.1", "192.168.0.1", "192.168.255.255", "198.18.0.1", "198.19.9.9", "198.51.100.7", "203.0.113.5"),
    *("224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
)  # fmt: skip
PRIVATE_V6 = (
    *("::", "::1", "::2", "100::1", "64:ff9b:1::1", "2001::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1"),
    *("2002:7f00:1::", "2002:a00:1::1", "3fff::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1"),
    *("fec0::1", "ff02::1", "ff0e::1", "::ffff:0:127.0.0.1", "::127.0.0.1", "2620:4f:8000::1"),
)  # fmt: skip
PUBLIC = ("1.1.1.1", "8.8.8.8", "93.184.216.34", "172.32.0.1", "192.0.1.1", "2606:4700::1111", "2a00:1450:4001::71")


def spell_v4(address: str) -> Iterator[str]:
    """Yield the hosts that browsers read as this IPv4 address."""
    a, b, c, d = address.split(".")
    number = int(IPv4Address(address))
    numbers = [int(part) for part in (a, b, c, d)]
    yield from (address, f"{address}.", str(number), f"{number:#x}", f"0{number:o}", f"0X{number:08X}")
    yield from (f"{a}.{numbers[1] * 65536 + numbers[2] * 256 + numbers[3]}", f"{a}.{b}.{numbers[2] * 256 + numbers[3]}")
    yield ".".join(f"{part:#x}" for part in numbers)
    yield ".".join(f"0{part:o}" for part in numbers)
    yield ".".join(f"{part:#06x}" for part in numbers)
    yield f"{numbers[0]:#x}.{b}.0{numbers[2]:o}.{d}"
    yield "".join(f"%{ord(char):02x}" for char in address)
    yield "".join(chr(ord(char) + 0xFEE0) for char in address)  # full-width digits and stops
    yield address.replace(".", "\u3002")
    yield address.replace("1", "\u2460") if "1" in address else address.replace("0", "\u24ea")
    hexed = f"{number >> 16:x}:{number & 0xFFFF:x}"
    yield from (f"[::ffff:{address}]", f"[::ffff:{hexed}]", f"[0:0:0:0:0:ffff:{hexed}]", f"[::FFFF:{address}]")
    yield from (f"[::{address}]", f"[64:ff9b::{address}]", f"[64:ff9b::{hexed}]", f"[2002:{hexed}::1]")
    yield from (f"[::ffff:0:{address}]", f"[64:ff9b:1::{address}]", f"[2001:0:{hexed}::]")


def spell_v6(address: str) -> Iterator[str]:
    """Yield the hosts that browsers read as this IPv6 address."""
    whole = IPv6Address(address)
    yield from (f"[{address}]", f"[{whole.exploded}]", f"[{whole.compressed.upper()}]", f"[{address}%25eth0]")
    yield from (f"[{address}%eth0]", f"%5B{address}%5D")


SPELLINGS = sorted({
    *(f"http://{host}/" for address in PRIVATE_V4 for host in spell_v4(address)),
    *(f"https://{host}/x?y" for address in PRIVATE_V6 for host in spell_v6(address)),
})  # fmt: skip


def fetch(url: str, resolve: FixedResolver | None = None) -> tuple[str, RecordingNetwork]:
    """Return how a download fails, and the network with the connections that it asked for."""

    async def get() -> tuple[str, RecordingNetwork]:
        network = RecordingNetwork()
        async with Downloader(network=network, resolve=resolve or FixedResolver({})) as downloader:
            with pytest.raises(DownloadError) as raised:
                await downloader.get(url)
        return raised.value.failure, network

    return asyncio.run(get())


def test_there_are_more_than_800_spellings() -> None:
    assert len(SPELLINGS) > 800


@pytest.mark.parametrize("part", range(8))
def test_no_spelling_of_a_non_public_address_is_connected_to(part: int) -> None:
    async def get_all() -> None:
        network = RecordingNetwork()
        async with Downloader(network=network, resolve=resolve_with_system) as downloader:
            for url in SPELLINGS[part::8]:
                with pytest.raises(DownloadError) as raised:
                    await downloader.get(url)
                assert raised.value.failure in ("refused", "unreachable"), url
        assert network.connects == []

    asyncio.run(get_all())


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_connected_to(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    failure, network = fetch(f"https://{host}/")
    assert (failure, network.connects) == ("unreachable", [(address, 443)])


@pytest.mark.parametrize("address", [*PRIVATE_V4, *PRIVATE_V6, "fe80::1%2", "2606:4700::1111%2"])
def test_a_name_with_a_non_public_address_is_refused(address: str) -> None:
    failure, network = fetch("http://inside.example/", FixedResolver({"inside.example": [[address]]}))
    assert (failure, network.connects) == ("refused", [])


def test_one_non_public_address_among_public_ones_refuses_the_name() -> None:
    resolver = FixedResolver({"mixed.example": [["1.1.1.1", "10.0.0.1"]]})
    assert fetch("http://mixed.example/", resolver)[1].connects == []


def test_a_name_is_resolved_once_for_a_request_and_connected_at_the_checked_address() -> None:
    resolver = FixedResolver({"turning.example": [["1.1.1.1"], ["127.0.0.1"]]})
    failure, network = fetch("https://turning.example/", resolver)
    assert (failure, network.connects, resolver.asked) == ("unreachable", [("1.1.1.1", 443)], ["turning.example"])


def test_all_checked_addresses_are_tried_in_order() -> None:
    resolver = FixedResolver({"two.example": [["1.1.1.1", "1.1.1.1", "8.8.8.8"]]})
    assert fetch("http://two.example/", resolver)[1].connects == [("1.1.1.1", 80), ("8.8.8.8", 80)]


def test_a_name_with_very_many_addresses_is_refused() -> None:
    resolver = FixedResolver({"many.example": [[f"1.1.1.{last}" for last in range(40)]]})
    assert fetch("http://many.example/", resolver)[0] == "refused"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://files.example/", "file:///etc/passwd", "gopher://a.example/", "data:text/html,x", "javascript:alert(1)",
        "//a.example/", "a.example", "", "http://", "http:///", "http://a.example:22/", "https://a.example:8443/",
        "http://a.example:99999/", "http://user@a.example/", "http://user:word@a.example/", "http://@a.example/",
        "http://a b.example/", "http://[::1/", "http://a..b\x00.example/",
        "ws://a.example/", "http://a.example/" + "x" * 9000, "http://\ud800.example/", "view-source:http://a.example/",
    ],
)  # fmt: skip
def test_other_schemes_ports_and_credentials_are_refused(url: str) -> None:
    assert fetch(url, FixedResolver({"a.example": [["1.1.1.1"]]}))[1].connects == []


def test_a_backslash_ends_the_host_as_in_browsers() -> None:
    resolver = FixedResolver({"a.example": [["1.1.1.1"]]})
    assert fetch("http://a.example\\@10.0.0.1:22/", resolver)[1].connects == [("1.1.1.1", 80)]


@pytest.mark.parametrize(
    "location",
    ["http://127.0.0.1/", "//10.0.0.1/x", "https://[::1]/", "file:///etc/passwd", "http://inside.example/",
     "http://0x7f.1/", "http://a:b@site.example/", "http://[/", "gopher://x/", "http://169.254.169.254/latest"],
)  # fmt: skip
def test_a_redirect_to_a_non_public_address_is_refused(location: str) -> None:
    async def check() -> None:
        async with web_server(always(reply(status="302 Found", location=location))) as port:
            resolver = FixedResolver({"site.example": [["127.0.0.1"]], "inside.example": [["192.168.1.1"]]})
            async with Downloader(resolve=resolver, allowed=AllowedHosts([f"site.example:{port}"])) as downloader:
                with pytest.raises(DownloadError) as raised:
                    await downloader.get(f"http://site.example:{port}/")
        assert raised.value.failure == "refused"

    asyncio.run(check())


def test_an_opened_host_is_reached_and_no_other_port_or_name_of_its_machine() -> None:
    async def get(downloader: Downloader, url: str) -> Download | str:
        try:
            return await downloader.get(url)
        except DownloadError as error:
            return error.failure

    async def check() -> None:
        async with web_server(lambda target, headers: reply(f"{headers['host']} {target}")) as port:
            resolver = FixedResolver({"wiki.corp": [["127.0.0.1"]], "other.corp": [["127.0.0.1"]]})
            async with Downloader(resolve=resolver, allowed=AllowedHosts([f"wiki.corp:{port}"])) as downloader:
                opened = await get(downloader, f"http://WIKI.corp:{port}/a?b=%C3%BC#c")
                assert isinstance(opened, Download)
                assert opened.body.decode() == f"wiki.corp:{port} /a?b=%C3%BC"
                for url in ("http://wiki.corp/", f"http://other.corp:{port}/", f"http://127.0.0.1:{port}/"):
                    assert await get(downloader, url) == "refused"

    asyncio.run(check())


@pytest.mark.parametrize("entry", ["", "http://a.example", "a.example/x", "u@a.example", "a.example:x", "a b", "a?b"])
def test_a_malformed_entry_of_the_allowed_hosts_is_refused(entry: str) -> None:
    with pytest.raises(CodedError, match="takes host or host:port"):
        AllowedHosts([entry])


def test_an_entry_without_a_port_opens_80_and_443() -> None:
    hosts = AllowedHosts(["Intranet.Corp", "[::1]:8080", "b.example:80"])
    assert [hosts.contains("intranet.corp", port) for port in (80, 443, 8080)] == [True, True, False]
    assert (hosts.contains("::1", 8080), hosts.contains("::1", 80)) == (True, False)
    assert (hosts.contains("b.example", 80), hosts.contains("b.example", 443)) == (True, False)


def test_sockets_of_this_machine_are_refused() -> None:
    with pytest.raises(CodedError, match="sockets of this machine"):
        asyncio.run(GuardedNetwork(RecordingNetwork()).connect_unix_socket("/run/x.sock"))


@given(st.integers(0, 2**32 - 1).map(IPv4Address) | st.integers(0, 2**128 - 1).map(IPv6Address))
def test_public_addresses_are_global_in_the_tables_of_python_as_well(address: IPv4Address | IPv6Address) -> None:
    if is_public(address):
        assert address.is_global
        assert not (address.is_multicast or address.is_private or address.is_reserved)


@given(st.text(max_size=60) | st.from_regex(r"https?://[^/]{0,40}/.{0,9}", fullmatch=True))
def test_parsing_never_fails_in_another_way(text: str) -> None:
    try:
        address = parse_web_address(text)
    except CodedError as error:
        assert error.code == "address_refused"
    else:
        again = parse_web_address(address.url)
        assert again == address
        assert address.target.startswith("/")
        assert address.url.isascii()
        assert address.port in (80, 443)


def test_the_system_resolver_names_loopback() -> None:
    found = asyncio.run(resolve_with_system("localhost", 80))
    assert found
    assert not any(is_public(ip_address(address)) for address in found)
