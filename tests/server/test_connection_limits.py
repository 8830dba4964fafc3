"""Connection limits: clients without a token make room for others, and never shut out a user."""

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from math import inf
from pathlib import Path

import httpx2
import pytest

from tests.harness.replies import answers
from tests.server.server_harness import LIST, RunningServer, ServerHarness, repeated_reply, run
from tests.server.test_rate_limits import Uptime
from tests.server.test_websocket import opened
from timeloom.server.http.connection_limits import ESTIMATE_S, MIN_AGE_S, REPORT_S, ConnectionGuard
from timeloom.server.observability.metrics import Metrics
from timeloom.server.rate_limit import RateLimits

BEGUN = b"GET / HTTP/1.1\r\nhost: localhost\r\n"


def connect(served: RunningServer) -> socket.socket:
    """Open a connection with an unfinished request."""
    connected = socket.create_connection(("127.0.0.1", int(served.url.rpartition(":")[2])))
    connected.sendall(BEGUN)
    return connected


async def wait_until_closed(connected: socket.socket) -> None:
    """Wait until the server has ended the connection without an answer."""
    connected.setblocking(False)
    loop = asyncio.get_running_loop()
    try:
        assert await loop.sock_recv(connected, 1) == b""
    except ConnectionResetError:
        return


@contextmanager
def closing(*sockets: socket.socket) -> Generator[None]:
    with ExitStack() as stack:
        for one in sockets:
            stack.enter_context(one)
        yield


def test_an_unfinished_request_makes_room_for_a_user(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, repeated_reply(answers("Done.")))
        stage.limits = RateLimits(connections=4)
        async with stage.serve() as served:
            for _ in range(3):
                crowd = [connect(served) for _ in range(8)]
                with closing(*crowd):
                    # A new client each time, whose connection is a new one too.
                    async with httpx2.AsyncClient(base_url=served.url) as http:
                        assert (await http.get(LIST, headers=served.ann.headers)).status_code == 200
                    await wait_until_closed(crowd[0])
            metrics = (await served.client("operator").get("/metrics")).text
            assert 'timeloom_connections_limited_total{action="closed"}' in metrics

    run(check)


def test_connections_of_users_are_never_closed_for_others(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, repeated_reply(answers("Done.")))
        stage.limits = RateLimits(connections=3)
        async with stage.serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            await served.ann.wait_for_state(conversation, "idle")
            async with served.ann.stream_conversation(conversation) as events, opened(served, conversation) as held:
                await anext(events)
                # The third connection, which the client keeps.
                assert (await served.ann.get(LIST)).status_code == 200
                refused = connect(served)
                with closing(refused):
                    refused.setblocking(False)
                    answer = await asyncio.get_running_loop().sock_recv(refused, 100)
                    assert answer.startswith(b"HTTP/1.1 503")
                assert (await served.ann.get(LIST)).status_code == 200
                await held.ping()
                assert (await anext(events)).event

    run(check)


class Connections:
    """Real connections, and the guard that they are reported to."""

    def __init__(self, most_per_address: float = inf, descriptors: float = inf, *proxies: str) -> None:
        self.uptime = Uptime()
        self.guard = ConnectionGuard(
            Metrics(),
            most_per_address=most_per_address,
            descriptors=descriptors,
            proxies=proxies,
            uptime=self.uptime,
        )

    @asynccontextmanager
    async def open(self, host: str) -> AsyncGenerator[tuple[asyncio.Transport, bool]]:
        """Open a connection; yield its transport and whether the guard admits it."""
        near, far = socket.socketpair()
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=near)
        with far:
            try:
                yield transport, self.guard.admit(transport, host)
            finally:
                self.guard.release(transport)
                transport.abort()


def test_an_address_closes_its_own_connections_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        place = Connections(2)
        async with (
            place.open("192.0.2.1") as (user, _),
            place.open("192.0.2.1") as (old, _),
            place.open("192.0.2.1") as (busy, _),
            place.open("192.0.2.2") as (other, _),
        ):
            place.guard.trust(user)
            place.guard.set_busy(busy, True)
            # Nothing is old enough: a burst of clients is admitted.
            async with place.open("192.0.2.1") as (_, is_admitted):
                assert is_admitted
            assert not old.is_closing()
            place.uptime.now_s += MIN_AGE_S
            async with place.open("192.0.2.1") as (_, is_admitted):
                assert is_admitted
            assert [one.is_closing() for one in (user, old, busy, other)] == [False, True, False, False]
            place.guard.set_busy(busy, False)
            async with place.open("192.0.2.1"), place.open("192.0.2.1"):
                assert busy.is_closing()
            place.uptime.now_s += REPORT_S
        assert len(place.guard) == 0

    with caplog.at_level(logging.WARNING, "timeloom"):
        run(check)
    # Two were closed, and the second one belongs to the next line.
    assert [record.message for record in caplog.records] == ["connections limited"]


def test_a_proxy_has_no_limit_of_its_own() -> None:
    async def check() -> None:
        for proxies, is_closed in ((("10.0.0.0/8", "proxy.example"), False), (("*",), False), (("10.1.2.3",), True)):
            place = Connections(1, inf, *proxies)
            async with place.open("10.0.0.9") as (old, _):
                place.uptime.now_s += MIN_AGE_S
                async with place.open("10.0.0.9"):
                    assert old.is_closing() is is_closed
            place = Connections(1, inf, *proxies)
            async with place.open("a.socket") as (_, is_admitted):
                assert is_admitted

    run(check)


def test_a_number_of_descriptors_stays_free() -> None:
    async def check() -> None:
        with closing(*(socket.socket() for _ in range(80))):
            place = Connections(inf, 100)
            async with place.open("192.0.2.1") as (_, is_admitted):
                assert not is_admitted
        place.uptime.now_s += ESTIMATE_S
        async with place.open("192.0.2.1") as (first, is_admitted):
            assert is_admitted
            with closing(*(socket.socket() for _ in range(80))):
                async with place.open("192.0.2.2") as (_, is_second_admitted):
                    assert (is_second_admitted, first.is_closing()) == (True, True)

    run(check)
