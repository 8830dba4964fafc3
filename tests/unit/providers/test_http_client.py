"""The HTTP client under the adapters: addresses, connections that are used again, TLS, proxies, and bad services."""

import asyncio
import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from timeloom.platform.certificates import load_certificates
from timeloom.providers.http import connection, direct
from timeloom.providers.http.address import parse_address, request_head
from timeloom.providers.http.answer import HttpResponse, Transport, TransportError
from timeloom.providers.http.direct import DirectTransport
from timeloom.providers.http.httpx2_transport import Httpx2Transport
from timeloom.providers.http.transport import open_transport
from timeloom.providers.settings import HttpClient
from timeloom.testing import fake_service as fake

T = TypeVar("T")
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]
OK = b"HTTP/1.1 200 OK\r\n"
Client = Callable[[str, float], Transport]
over_both = pytest.mark.parametrize("client", [DirectTransport, Httpx2Transport])
NOT_PROXIED = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NOT_PROXIED:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@asynccontextmanager
async def served(handle: Handler, tls: ssl.SSLContext | None = None) -> AsyncGenerator[str]:
    """The address of a server that runs the handler for each connection."""
    tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await handle(reader, writer)
        with suppress(OSError):
            writer.close()
            await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks[asyncio.create_task(handled(reader, writer))] = writer

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task, writer in tasks.items():
            task.cancel()
            # One that was closing and has just sent its rest is gone, and does not know that (Python 3.11).
            with suppress(AttributeError):
                writer.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)


def plays(*pieces: bytes, requests: int = 1) -> Handler:
    """Answers each request of a connection with these bytes, and hangs up after the last."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(requests):
            await reader.readuntil(b"\r\n\r\n")
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)

    return handle


async def whole(answer: HttpResponse) -> bytes:
    body = bytearray()
    while piece := await answer.read(60):
        body += piece
    await answer.close()
    return bytes(body)


async def asked(handle: Handler, client: Client) -> tuple[int, dict[str, str], bytes]:
    async with served(handle) as place:
        transport = client(f"http://{place}/x", 5)
        answer = await transport.post({}, b"")
        body = await whole(answer)
        await transport.close()
        return answer.status, dict(answer.headers), body


async def refused(handle: Handler, client: Client) -> str:
    with pytest.raises(TransportError) as error:
        await asked(handle, client)
    return str(error.value)


@pytest.mark.parametrize(
    ("url", "place", "target", "host"),
    [
        ("http://localhost", ("localhost", 80, False), "/", "localhost"),
        ("https://example.org:443/v1/x?a=b c", ("example.org", 443, True), "/v1/x?a=b%20c", "example.org"),
        ("http://[::1]:8080/ä%2F", ("::1", 8080, False), "/%C3%A4%2F", "[::1]:8080"),
        ("https://bücher.example/", ("xn--bcher-kva.example", 443, True), "/", "xn--bcher-kva.example"),
    ],
)
def test_an_address_is_read_from_its_url(url: str, place: tuple[str, int, bool], target: str, host: str) -> None:
    address = parse_address(url)
    assert (address.host, address.port, address.secure) == place
    assert (address.target, address.headers) == (target, {"host": host})


@pytest.mark.parametrize("url", ["", "localhost:80", "ftp://x/", "http:///x", "http://x:port/", "http://[::1/", "//x"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(TransportError, match="its address"):
        parse_address(url)


def test_a_login_in_the_url_goes_before_a_key() -> None:
    head = request_head(parse_address("http://me:p%40ss@x/"), {"authorization": "Bearer key"}, 0)
    assert b"authorization: Basic bWU6cEBzcw==\r\n" in head
    assert b"Bearer" not in head


@pytest.mark.parametrize("key", ["sk-a\r\nx: y", "sk-a\n", " sk-a", "sk-ä", "sk-\x00"])
def test_a_header_that_http_does_not_allow_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(TransportError, match="'x-api-key'") as error:
        request_head(parse_address("http://x/"), {"x-api-key": key}, 0)
    assert "sk-" not in str(error.value)


@over_both
@pytest.mark.parametrize(
    "pieces",
    [
        [OK + b"content-length: 4\r\n\r\nab", b"cd"],
        [OK + b"\r\nab", b"cd"],
        [OK + b"transfer-encoding: chunked\r\n\r\n2\r\nab\r", b"\n2\r\ncd\r\n0\r\n\r\n"],
        [OK + b"transfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\nlink: x\r\n\r\n"],
        [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n" + OK + b"\r\nabcd"],
        [bytes([byte]) for byte in OK + b"content-length: 4\r\n\r\nabcd"],
    ],
)
def test_a_body_is_read_however_it_is_framed_and_cut(pieces: list[bytes], client: Client) -> None:
    status, headers, body = asyncio.run(asked(plays(*pieces), client))
    assert (status, body) == (200, b"abcd")
    assert "link" not in headers


@over_both
def test_headers_are_found_in_lower_case_and_repeated_ones_together(client: Client) -> None:
    _, headers, _ = asyncio.run(asked(plays(OK + b"X-A: 1\r\nx-a: 2\r\nRetry-After:  7 \r\n\r\n"), client))
    assert headers == {"x-a": "1, 2", "retry-after": "7"}


@pytest.mark.parametrize(
    ("sent", "direct_reason", "httpx2_reason"),
    [
        (b"", "closed before an answer", "disconnected without sending"),
        (b"SSH-2.0-OpenSSH\r\n", "not HTTP/1.1", "disconnected without sending"),
        (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nzz", "not HTTP/1.1", "pending proposal"),
        (OK + b"x: " + b"y" * 100_000, "headers are larger", "disconnected without sending"),
        (OK + b"x: " + b"y" * 200_000, "headers are larger", "too long"),
    ],
)
def test_what_does_not_answer_in_http_cannot_be_reached(sent: bytes, direct_reason: str, httpx2_reason: str) -> None:
    assert direct_reason in asyncio.run(refused(plays(sent), DirectTransport))
    assert httpx2_reason in asyncio.run(refused(plays(sent), Httpx2Transport))


@over_both
def test_chunks_that_are_none_end_the_body(client: Client) -> None:
    _, _, body = asyncio.run(asked(plays(OK + b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\nzz\r\n"), client))
    assert body == b"ab"


async def connections_used(first: bytes, *later: bytes, client: Client = DirectTransport) -> int:
    """How many connections two requests take, the first of which gets these bytes, some of them late."""
    used: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        used.append(1)
        pieces = (first, *later) if len(used) == 1 else (OK + b"content-length: 0\r\n\r\n",)
        await plays(*pieces, requests=9)(reader, writer)

    async with served(handle) as place:
        transport = client(f"http://{place}/", 5)
        for _ in range(2):
            await whole(await transport.post({}, b""))
            await asyncio.sleep(0.05)
        await transport.close()
    return len(used)


@over_both
@pytest.mark.parametrize(
    ("first", "connections"),
    [
        (OK + b"content-length: 2\r\n\r\nab", 1),
        (OK + b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", 1),
        (OK + b"content-length: 2\r\nconnection: close\r\n\r\nab", 2),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nab", 2),
    ],
)
def test_a_connection_is_used_again_where_its_answer_is_over(first: bytes, connections: int, client: Client) -> None:
    assert asyncio.run(connections_used(first, client=client)) == connections


FORGED = OK + b"content-length: 6\r\n\r\nforged"
UNASKED = ((OK + b"content-length: 2\r\n\r\nab" + FORGED,), (OK + b"content-length: 0\r\n\r\n", FORGED))


@pytest.mark.parametrize("pieces", UNASKED)
def test_a_connection_on_which_something_came_unasked_is_not_used_again(pieces: tuple[bytes, ...]) -> None:
    assert asyncio.run(connections_used(*pieces)) == 2


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("pieces", UNASKED)
def test_what_came_unasked_is_no_answer_over_httpx2_either(
    pieces: tuple[bytes, ...], run: Callable[[Coroutine[None, None, list[bytes]]], list[bytes]]
) -> None:
    # httpx2 notices it only after it sent the next request, which therefore may fail; the one after it succeeds.
    async def three_times() -> list[bytes]:
        used: list[int] = []

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            used.append(1)
            await plays(*(pieces if len(used) == 1 else (OK + b"content-length: 4\r\n\r\ntrue",)), requests=9)(
                reader, writer
            )

        bodies: list[bytes] = []
        async with served(handle) as place:
            transport = Httpx2Transport(f"http://{place}/", 5)
            for _ in range(3):
                with suppress(TransportError):
                    bodies.append(await whole(await transport.post({}, b"")))
                await asyncio.sleep(0.05)
            await transport.close()
        return bodies

    first, *later = run(three_times())
    assert first in (b"ab", b"")
    assert set(later) == {b"true"}


@over_both
def test_an_answer_that_is_given_up_takes_its_connection_with_it(client: Client) -> None:
    async def given_up() -> bytes:
        left = asyncio.get_running_loop().create_future()

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await plays(OK + b"content-length: 9\r\n\r\nab")(reader, writer)
            left.set_result(await reader.read())

        async with served(handle) as place:
            answer = await client(f"http://{place}/", 5).post({}, b"")
            assert await answer.read(60) == b"ab"
            await answer.close()
            async with asyncio.timeout(30):
                return await left

    assert asyncio.run(given_up()) == b""


def test_a_connection_that_was_idle_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "IDLE_S", 0.0)
    assert asyncio.run(connections_used(OK + b"content-length: 0\r\n\r\n")) == 2


def test_no_more_than_some_connections_wait_for_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "MAX_IDLE", 0)
    assert asyncio.run(connections_used(OK + b"content-length: 0\r\n\r\n")) == 2


@over_both
def test_a_service_that_hung_up_meanwhile_is_connected_to_anew(client: Client) -> None:
    async def twice() -> list[bytes]:
        async with served(plays(OK + b"content-length: 2\r\n\r\nab")) as place:
            transport = client(f"http://{place}/", 5)
            bodies: list[bytes] = []
            for _ in range(2):
                bodies.append(await whole(await transport.post({}, b"")))
                await asyncio.sleep(0.05)
            await transport.close()
            return bodies

    assert asyncio.run(twice()) == [b"ab", b"ab"]


@over_both
def test_a_reader_who_takes_his_time_loses_nothing_of_a_cut_body(client: Client) -> None:
    async def slowly() -> bytes:
        async with served(plays(OK + b"content-length: 99\r\n\r\nab", b"cd")) as place:
            answer = await client(f"http://{place}/", 5).post({}, b"")
            await asyncio.sleep(0.1)
            return await whole(answer)

    assert asyncio.run(slowly()) == b"abcd"


@over_both
def test_a_read_that_waits_too_long_fails_and_nothing_is_lost(client: Client) -> None:
    async def waited() -> bytes:
        go_on = asyncio.Event()

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await plays(OK + b"content-length: 4\r\n\r\nab")(reader, writer)
            await go_on.wait()
            writer.write(b"cd")
            await writer.drain()

        async with served(handle) as place:
            transport = client(f"http://{place}/", 5)
            answer = await transport.post({}, b"")
            first = await answer.read(60)
            with pytest.raises(TimeoutError):
                await answer.read(0.01)
            go_on.set()
            body = first + await whole(answer)
            await transport.close()
            return body

    assert asyncio.run(waited()) == b"abcd"


@over_both
def test_a_body_that_nobody_reads_does_not_fill_the_memory(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_HELD_BYTES", 1000)
    size = 64 * 2**20

    async def unread() -> tuple[int, int]:
        sent = 0

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            await plays(OK + f"content-length: {size}\r\n\r\n".encode())(reader, writer)
            while sent < size:
                writer.write(bytes(2**16))
                await writer.drain()
                sent += 2**16

        async with served(handle) as place:
            answer = await client(f"http://{place}/", 5).post({}, b"")
            before = -1
            while before != sent:
                before = sent
                await asyncio.sleep(0.1)
            return sent, len(await whole(answer))

    sent, read = asyncio.run(unread())
    assert sent < size
    assert read == size


@over_both
def test_a_service_that_never_answers_the_connection_cannot_be_reached(client: Client) -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def ask() -> None:
        async with served(silent) as place:
            await client(f"https://{place}/", 0.1).post({}, b"")

    with pytest.raises(TransportError, match=r"no connection within 0\.1 s"):
        asyncio.run(ask())


@pytest.fixture
def server_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[ssl.SSLContext]:
    """A server's certificate for 127.0.0.1, which is trusted while the test runs."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a service")])
    place = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + DAY)
    signed = made.add_extension(place, critical=False).add_extension(CA, critical=True).sign(key, hashes.SHA256())
    pem = tmp_path / "cert.pem"
    plain = serialization.NoEncryption()
    pem.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    load_certificates.cache_clear()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pem)
    yield tls
    load_certificates.cache_clear()


DAY = dt.timedelta(days=1)
CA = x509.BasicConstraints(ca=True, path_length=0)


@over_both
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_trusted_service_is_asked_over_tls(
    run: Callable[[Coroutine[None, None, bytes]], bytes], client: Client, server_tls: ssl.SSLContext
) -> None:
    async def ask() -> bytes:
        answers = plays(OK + b"content-length: 4\r\n\r\nab", b"cd", requests=2)
        async with served(answers, server_tls) as place:
            transport = client(f"https://{place}/", 5)
            bodies = [await whole(await transport.post({}, b"")) for _ in range(2)]
            await transport.close()
            return b"".join(bodies)

    assert run(ask()) == b"abcdabcd"


@over_both
@pytest.mark.usefixtures("server_tls")
def test_a_service_that_is_not_trusted_is_not_asked(
    client: Client, server_tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask() -> None:
        async with served(plays(OK + b"\r\n"), server_tls) as place:
            await client(f"https://{place}/", 5).post({}, b"")

    monkeypatch.delenv("SSL_CERT_FILE")
    load_certificates.cache_clear()
    with pytest.raises(TransportError, match="certificate verify failed"):
        asyncio.run(ask())


@pytest.mark.parametrize("name", ["http_proxy", "ALL_PROXY"])
def test_a_service_is_asked_through_the_proxy_that_the_environment_names(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask() -> str:
        async with fake.fake_service(fake.FakeResponse(parts=(b"ab", b"cd"))) as proxy:
            monkeypatch.setenv(name, proxy.url)
            transport = open_transport("http://model.invalid/v1", 5)
            assert isinstance(transport, Httpx2Transport)
            assert await whole(await transport.post({"x-a": "1"}, b"{}")) == b"abcd"
            await transport.close()
            await transport.close()
            return proxy.requests[0].path

    assert asyncio.run(ask()) == "http://model.invalid/v1"


def test_without_a_proxy_a_service_is_asked_directly() -> None:
    assert isinstance(open_transport("http://model.invalid/v1", 5), DirectTransport)


@pytest.mark.parametrize("proxy", ["", "http://127.0.0.1:1"])
@pytest.mark.parametrize(("choice", "client"), [("direct", DirectTransport), ("httpx2", Httpx2Transport)])
def test_the_settings_choose_the_client_whether_there_is_a_proxy_or_not(
    choice: HttpClient, client: type[Transport], proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    assert type(open_transport("https://model.invalid/v1", 5, choice)) is client


@over_both
@pytest.mark.parametrize("login", ["", "me:p%40ss@"])
def test_a_request_has_the_given_headers_and_no_others(login: str, client: Client) -> None:
    async def ask() -> list[fake.RecordedRequest]:
        answer = fake.FakeResponse(headers=(("set-cookie", "a=b; path=/"),))
        async with fake.fake_service(answer) as service:
            transport = client(f"{service.url.replace('//', f'//{login}')}/v1/x?a=b c", 5)
            for _ in range(2):
                await whole(await transport.post({"authorization": "Bearer key", "x-a": "1"}, b"{}"))
            await transport.close()
            return service.requests

    for request in asyncio.run(ask()):
        assert (request.path, request.body) == ("/v1/x?a=b%20c", b"{}")
        host = request.headers.pop("host")
        assert host.startswith("127.0.0.1:")
        key = "basic bwu6cebzcw==" if login else "bearer key"
        assert request.headers == {"authorization": key, "x-a": "1", "content-length": "2"}


@over_both
@pytest.mark.parametrize("key", ["sk-a\r\nx: y", "sk-a\n", " sk-a", "sk-ä", "sk-\x00"])
def test_a_key_that_http_does_not_allow_is_not_sent_and_not_shown(key: str, client: Client) -> None:
    with pytest.raises(TransportError, match="'x-api-key'") as error:
        asyncio.run(client("http://127.0.0.1:1/", 5).post({"x-api-key": key}, b""))
    assert "sk-" not in str(error.value)


@over_both
@pytest.mark.parametrize("url", ["", "localhost:80", "ftp://x/", "http:///x", "http://x:port/", "http://[::1/", "//x"])
def test_a_client_refuses_what_is_no_address(url: str, client: Client) -> None:
    with pytest.raises(TransportError, match="its address"):
        asyncio.run(client(url, 5).post({}, b""))


def test_a_proxy_of_another_kind_is_said_to_be_of_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "gopher://127.0.0.1:1")
    with pytest.raises(TransportError, match="the proxy of this machine"):
        asyncio.run(open_transport("http://model.invalid/", 5).post({}, b""))


def test_a_proxy_that_is_not_there_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with pytest.raises(TransportError):
        asyncio.run(open_transport("http://model.invalid/", 5).post({}, b""))
