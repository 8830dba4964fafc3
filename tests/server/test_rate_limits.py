"""Limits: who asks too often, guesses tokens, sends slowly or has too many streams is refused, and others are not."""

import asyncio
from pathlib import Path

import pytest

from tests.harness.replies import answers
from tests.server.server_harness import CHAT, LIST, RunningServer, ServerHarness, calls, repeated_reply, run
from timeloom.server.auth.access_policy import AccessPolicy
from timeloom.server.http.header_limits import MAX_HEAD_BYTES
from timeloom.server.http.uploads import UploadLimits
from timeloom.server.rate_limit import RateLimits, TokenBuckets

pytestmark = pytest.mark.slow

ANSWER = repeated_reply(answers("Done."))


async def begin_to_say(served: RunningServer, media_type: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection with an incomplete message."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
    head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ann\r\n"
    writer.write(f"{head}content-type: {media_type}\r\ncontent-length: 100\r\n\r\n-".encode())
    return reader, writer


class Uptime:
    """A clock that advances on demand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_bucket_gives_what_it_holds_and_fills_again_with_time() -> None:
    uptime = Uptime()
    buckets = TokenBuckets(per_s=2.0, burst=3.0, uptime=uptime)
    assert [buckets.take_token("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take_token("b") == 0
    uptime.now_s = 0.5
    assert [buckets.take_token("a"), buckets.take_token("a")] == [0, 0.5]
    uptime.now_s = 100.0
    assert [buckets.take_token("a") for _ in range(4)] == [0, 0, 0, 0.5]


def test_the_table_of_buckets_is_bounded_and_forgets_who_was_away_longest() -> None:
    buckets = TokenBuckets(per_s=1.0, burst=1.0, uptime=Uptime(), most_keys=2)
    for name in ("a", "b", "a", "c"):
        buckets.take_token(name)
    assert len(buckets) == 2
    assert [buckets.take_token("a"), buckets.take_token("b")] == [1.0, 0]


def test_one_who_asks_too_often_waits_and_others_do_not(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, ANSWER)
        stage.limits = RateLimits(requests_per_s=0.01, burst=2)
        async with stage.serve() as served:
            statuses = [(await served.ann.get(LIST)).status_code for _ in range(3)]
            assert statuses == [200, 200, 429]
            refused = await served.ann.post(CHAT, {"message": "x"})
            assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
            assert 1 <= int(refused.headers["retry-after"]) <= 100
            assert (await served.client("bob").get(LIST)).status_code == 200
            assert (await served.http.get("/health")).status_code == 200

    run(check)


def test_guesses_are_limited_by_their_address_and_lock_nobody_out(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, ANSWER)
        stage.limits = RateLimits(failures_per_minute=2)
        async with stage.serve() as served:
            guesser = served.client("guess")
            assert [(await guesser.get(LIST)).status_code for _ in range(3)] == [401, 401, 429]
            at_the_login = await served.http.post("/login", json={"token": "guess"})
            assert (at_the_login.status_code, "retry-after" in at_the_login.headers) == (429, True)
            assert (await served.ann.get(LIST)).status_code == 200

    run(check)


def test_a_caller_has_so_many_streams_and_one_that_ends_makes_room(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.wait"), ANSWER)
        stage.limits = RateLimits(streams=1)
        async with stage.serve() as served:
            ann = served.ann
            conversation = str((await ann.send_message("go"))["conversation_id"])
            before = len(await ann.blocks(conversation))
            async with ann.stream_conversation(conversation) as events:
                await anext(events)
                refused = await ann.get(f"{CHAT}/{conversation}/stream")
                assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
                body = {"message": "x", "conversation_id": conversation}
                accept = ann.headers | {"accept": "text/event-stream"}
                posted = await served.http.post(CHAT, json=body, headers=accept)
                assert posted.status_code == 429
                # What is not streamed needs no room.
                assert (await ann.send_message("more", conversation))["status"] == "followup"
            assert len(await ann.blocks(conversation)) > before
            statuses = [429]
            while statuses[-1] == 429:
                # That the other end has left is heard of a moment later.
                async with served.http.stream("GET", f"{CHAT}/{conversation}/stream", headers=ann.headers) as response:
                    statuses.append(response.status_code)
            assert statuses[-1] == 200

    run(check)


@pytest.mark.parametrize("media_type", ["application/json", "multipart/form-data; boundary=b"])
def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path, media_type: str) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, ANSWER)
        stage.limits, stage.uploads = RateLimits(body_s=0.05), UploadLimits(base_timeout_s=0.05)
        async with stage.serve() as served:
            reader, writer = await begin_to_say(served, media_type)
            answered = (await reader.read()).decode()
            writer.close()
            assert answered.startswith("HTTP/1.1 408")
            assert "request_timeout" in answered

    run(check)


def test_who_leaves_before_a_body_has_come_is_no_fault_of_the_server(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, ANSWER).serve() as served:
            _, writer = await begin_to_say(served, "application/json")
            await writer.drain()
            writer.close()
            said = ""
            while 'operation="post_message"' not in said:
                said = (await served.client("operator").get("/metrics")).text
            assert 'operation="post_message",status="400"' in said
            assert "internal_error" not in said

    run(check)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", b"408 Request Timeout"),
        (b"GET /health HTTP/1.1\r\nx: y\r\n", b"408 Request Timeout"),
        (b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\nGET /he", b"408 Request Timeout"),
        (b"GET /health HTTP/1.1\r\nx: " + b"a" * MAX_HEAD_BYTES, b"431 Request Header Fields Too Large"),
        (b"GET /" + b"a" * MAX_HEAD_BYTES, b"431 Request Header Fields Too Large"),
    ],
)
def test_a_head_that_does_not_end_is_not_waited_for(tmp_path: Path, sent: bytes, status: bytes) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, ANSWER)
        stage.limits = RateLimits(head_s=0.3 if status.startswith(b"408") else 600.0)
        async with stage.serve() as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
            writer.write(sent)
            answered = await reader.read()
            writer.close()
            assert answered.rpartition(b"HTTP/1.1 ")[2].startswith(status)
            assert answered.count(b"HTTP/1.1 200") == sent.count(b"\r\n\r\n")

    run(check)


LARGE = b"host: localhost\r\n" + b"x: " + b"a" * 30_000 + b"\r\n"


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        (b"GET /health HTTP/1.1\r\n" + LARGE + LARGE[17:] + b"connection: close\r\n\r\n", [b"200"]),
        (b"GET /health HTTP/1.1\r\n" + LARGE + LARGE[17:] * 2 + b"\r\n", [b"431"]),
        (b"GET /health?" + b"a" * MAX_HEAD_BYTES + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", [b"431"]),
        (b"GET /health HTTP/1.1\r\nx: " + b"a" * MAX_HEAD_BYTES + b"\r\n\r\n", [b"431"]),
        (b"GET /health HTTP/1.1\r\nno header\r\n\r\n", [b"400"]),
        (b"GET /health HTTP/1.1\r\n" + LARGE * 4 + b"\r\nGET /health HTTP/1.1\r\n" + LARGE + b"\r\n", [b"431"]),
    ],
)
def test_a_whole_head_has_at_most_64_kib(tmp_path: Path, sent: bytes, statuses: list[bytes]) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, ANSWER).serve() as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
            writer.write(sent)
            answered = await reader.read()
            writer.close()
            assert [one[:3] for one in answered.split(b"HTTP/1.1 ")[1:]] == statuses

    run(check)


@pytest.mark.parametrize(
    ("rules", "host", "status"),
    [
        (AccessPolicy(is_local=True), "localhost:8700", 200),
        (AccessPolicy(is_local=True), "127.0.0.1", 200),
        (AccessPolicy(is_local=True), "[::1]:8700", 200),
        (AccessPolicy(is_local=True), "evil.example:8700", 421),
        (AccessPolicy(is_local=True), "127.0.0.1.evil.example", 421),
        (AccessPolicy(is_local=True), "", 421),
        (AccessPolicy(is_local=True, hosts=("desk.lan",)), "DESK.lan:8700", 200),
        (AccessPolicy(hosts=("app.example",)), "app.example", 200),
        (AccessPolicy(hosts=("app.example",)), "localhost", 421),
        (AccessPolicy(), "anything", 200),
    ],
)
def test_a_server_answers_to_its_own_names_only(tmp_path: Path, rules: AccessPolicy, host: str, status: int) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, ANSWER)
        stage.rules = rules
        async with stage.serve() as served:
            answered = await served.http.get("/health", headers={"host": host})
            assert answered.status_code == status
            assert answered.headers["x-content-type-options"] == "nosniff"

    run(check)


def test_pages_of_other_origins_are_let_in_where_they_are_named_and_without_cookies(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, ANSWER)
        stage.rules = AccessPolicy(allow_origins=("https://app.example",))
        async with stage.serve() as served:
            asks = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
            for origin, status in (("https://app.example", 200), ("https://evil.example", 400)):
                preflight = await served.http.options(CHAT, headers={"origin": origin, **asks})
                assert preflight.status_code == status
                answered = await served.http.get(LIST, headers={"origin": origin, **served.ann.headers})
                allowed = answered.headers.get("access-control-allow-origin")
                assert allowed == (origin if status == 200 else None)
                assert "access-control-allow-credentials" not in answered.headers

    run(check)


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", "authorization, content-type, x-conversation-id, x-stainless-lang"),
        ("GET", "authorization, range, if-range, if-none-match, last-event-id"),
        ("HEAD", "authorization"),
        ("DELETE", "authorization, x-timeloom-tenant, x-timeloom-project"),
    ],
)
def test_pages_that_are_let_in_send_the_headers_of_their_clients_and_read_ours(
    tmp_path: Path, method: str, headers: str
) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, ANSWER)
        stage.rules = AccessPolicy(allow_origins=("https://app.example",))
        async with stage.serve() as served:
            origin = {"origin": "https://app.example"}
            asks = {"access-control-request-method": method, "access-control-request-headers": headers}
            preflight = await served.http.options(CHAT, headers=origin | asks)
            assert preflight.status_code == 200, preflight.text
            assert preflight.headers["access-control-allow-headers"] == headers
            answered = await served.http.get(LIST, headers=origin | served.ann.headers)
            exposed = answered.headers["access-control-expose-headers"].split(", ")
            assert {"content-range", "etag", "content-disposition", "retry-after", "www-authenticate"} <= set(exposed)

    run(check)
