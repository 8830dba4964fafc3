"""Malformed request heads: methods, addresses and headers that a correct client would not send."""

import asyncio
from pathlib import Path

import pytest

from tests.harness.replies import answers
from tests.server.server_harness import CHAT, LIST, Json, ServerHarness, calls, repeated_reply, run
from timeloom.core.blocks import ConversationStarted, TurnStarted, UserPrompt
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.server.auth.access_policy import AccessPolicy
from timeloom.server.http.timestamps import check_past, check_period


class LongAgo:
    """A clock that has not begun."""

    def epoch_us(self) -> int:
        return 0


TS = "2026-02-09T02:14:32.676425Z"


def test_head_says_what_get_would_and_sends_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        writes = calls("react.write", path="files/note.md", content="a note", channel="canvas")
        async with ServerHarness(tmp_path, writes, repeated_reply(answers("Done."))).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            await served.ann.wait_for_state(conversation, "idle")
            (file,) = (await served.ann.get(f"{LIST}/{conversation}/files")).json()["files"]
            for url in ("/health", LIST, f"{LIST}/{conversation}/timeline?form=export", file["url"], "/nowhere"):
                got = await served.http.get(url, headers=served.ann.headers)
                head = await served.http.head(url, headers=served.ann.headers)
                assert (head.status_code, head.content) == (got.status_code, b"")
                names = ("content-type", "content-length", "etag", "content-disposition")
                assert [head.headers.get(one) for one in names] == [got.headers.get(one) for one in names]
            stream = await served.http.head(f"{CHAT}/{conversation}/stream", headers=served.ann.headers)
            assert (stream.status_code, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
            assert served.services.rate_limiter.open_streams == 0
            bob = served.client("bob")
            assert (await bob.http.head(file["url"], headers=bob.headers)).status_code == 404

    run(check)


def test_a_method_that_is_not_there_says_which_are(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            for method, url, allowed in (
                ("GET", CHAT, "POST"),
                ("PUT", f"{LIST}/conv_1", "DELETE, GET, HEAD"),
                ("POST", "/openapi.json", "GET, HEAD"),
            ):
                refused = await served.http.request(method, url)
                assert (refused.status_code, refused.headers["allow"]) == (405, allowed)
                assert refused.json()["detail"] == f"this route accepts {allowed}"
            assert "/openapi.json" in (await served.http.get("/nowhere")).json()["detail"]

    run(check)


def test_a_slash_in_a_part_of_an_address_is_none(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            for url in (f"{LIST}/{conversation}%2Fstatus", f"{LIST}/{conversation}%2fstatus"):
                refused = await served.ann.get(url)
                assert (refused.status_code, refused.json()["code"]) == (404, "route_unknown")
            found = await served.http.get(f"{LIST}?words=a%2fb", headers=served.ann.headers)
            assert found.status_code == 200

    run(check)


@pytest.mark.parametrize("limit", ["1e1", "+1", " 1", "1.0", "1_0", "٣", "-1", ""])
def test_a_number_in_an_address_has_digits_alone(tmp_path: Path, limit: str) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            refused = await served.http.get(LIST, params={"limit": limit}, headers=served.ann.headers)
            assert (refused.status_code, refused.json()["code"]) == (400, "request_malformed")

    run(check)


@pytest.mark.parametrize("doubled", ["host: 127.0.0.1", "authorization: Bearer bob"])
def test_a_header_that_is_there_twice_is_refused(tmp_path: Path, doubled: str) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            host, port = served.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            head = (f"GET {LIST} HTTP/1.1", f"host: {host}", "authorization: Bearer ann", "connection: close", doubled)
            writer.write("\r\n".join([*head, "", ""]).encode())
            said = await reader.read()
            writer.close()
            await writer.wait_closed()
            assert said.startswith(b"HTTP/1.1 400") and b"request_malformed" in said

    run(check)


def test_a_page_of_another_site_posts_nothing_to_a_server_of_this_machine(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, repeated_reply(answers("Done.")))
        stage.rules = AccessPolicy(is_local=True, allow_origins=("https://app.example",))
        async with stage.serve() as served:
            cross = served.ann.headers | {"sec-fetch-site": "cross-site"}
            for headers, status in (
                (cross, 403),
                (cross | {"origin": "https://evil.example"}, 403),
                (cross | {"origin": "https://app.example"}, 202),
                (served.ann.headers | {"sec-fetch-site": "same-origin"}, 202),
                (served.ann.headers, 202),
            ):
                said = await served.http.post(CHAT, json={"message": "x"}, headers=headers)
                assert said.status_code == status
            # With the cookie, which any page of this machine's other ports would send along.
            cookie = served.cookie("ann") | {"sec-fetch-site": "same-site"}
            assert (await served.http.post(CHAT, json={"message": "x"}, headers=cookie)).status_code == 403
            assert (await served.http.get(LIST, headers=cookie)).status_code == 200

    run(check)


def test_a_name_that_is_none_is_told_so(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            for name in ("*", "a b", "-a", "x" * 65):
                refused = await served.ann.get(f"/conversations/home/{name}")
                assert (refused.status_code, refused.json()["code"]) == (400, "request_malformed")
                assert "a project must have 1 to 64" in refused.json()["detail"]
            headers = served.client("operator").headers | {"x-timeloom-tenant": "a/b"}
            refused = await served.http.get("/v1/models", headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, "request_malformed")

    run(check)


def test_a_conversation_of_null_begins_one(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            said = await served.ann.post(CHAT, {"message": "x", "conversation_id": None})
            assert (said.status_code, said.json()["status"]) == (202, "started")

    run(check)


def test_times_are_of_a_calendar_and_what_happened_is_not_ahead(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            said = await served.ann.send_message("go")
            conversation = str(said["conversation_id"])
            await served.ann.wait_for_state(conversation, "idle")
            for ts in ("2026-02-30T00:00:00Z", "2999-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "yesterday"):
                event: Json = {"kind": "alert", "text": "x", "started_ts": ts}
                refused = await served.ann.post(f"/events/home/demo/{conversation}", event)
                assert (refused.status_code, refused.json()["code"]) == (400, "request_malformed")
                feedback: Json = {"reaction": "ok", "ts": ts}
                url = f"{LIST}/{conversation}/turns/{said['turn_id']}/feedback"
                assert (await served.ann.post(url, feedback)).status_code == 400

    run(check)
    check_past("ts", "1970-01-01T23:59:59Z", LongAgo())
    with pytest.raises(CodedError, match="must not be in the future"):
        check_past("ts", "1970-01-02T00:00:01Z", LongAgo())
    start = "2999-01-01T00:00:00Z"
    for end in (start, "2999-01-01T00:00:00.000Z", "2999-01-01T00:00:00.1Z"):
        check_period(start, end)
    for early in ("2998-12-31T23:59:59.9Z", "2999-01-01T00:00:00.099Z"):
        with pytest.raises(CodedError, match="end must not be before start"):
            check_period("2999-01-01T00:00:00.1Z", early)
    with pytest.raises(CodedError, match="end must be RFC 3339"):
        check_period(start, "tomorrow")


def test_a_turn_that_nobody_runs_is_interrupted(tmp_path: Path) -> None:
    async def check() -> None:
        stage, name = ServerHarness(tmp_path, repeated_reply(answers("Done."))), ConversationId("conv_left")
        header = ConversationStarted(tenant="home", project="demo", user="ann")
        blocks = [TurnStarted(n=1), UserPrompt(text="go")]
        drafts = [Draft(NO_TURN, TS, header), *(Draft(TurnId("turn_1"), TS, block) for block in blocks)]
        await stage.store.append(name, 0, drafts)
        async with stage.serve() as served:
            assert (await served.ann.get(f"{LIST}/{name}/status")).json()["state"] == "interrupted"
            lease = await stage.store.acquire(name, "another program")
            assert (await served.ann.get(f"{LIST}/{name}/status")).json()["state"] == "running"
            await stage.store.release(lease)
            async with served.ann.stream_conversation(name) as heard:
                assert (await anext(heard)).data["state"] == "interrupted"
            # What is said goes on with it.
            assert (await served.ann.send_message("still there?", name))["status"] == "followup"
            await served.ann.wait_for_state(name, "idle")

    run(check)
