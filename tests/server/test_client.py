"""The Python client sends, streams and reads with types, against a real server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from markdown_it import MarkdownIt
from typing_extensions import override

from tests.harness.replies import answers, slow_reply
from tests.harness.repository import ROOT
from tests.server.contract_check import check_response
from tests.server.server_harness import RunningServer, ServerHarness, calls, run
from timeloom.client import ApiError, AttachedFile, Client, OtherBlock, read_text, types
from timeloom.client.decode import decode, read_block

WRITES = calls("react.write", path="outputs/ferries.md", content="# Ferries\n", channel="canvas")


def client_of(served: RunningServer, http: httpx2.AsyncClient | None = None, token: str = "ann") -> Client:
    return Client(served.url, token, tenant="home", project="demo", http=http, reconnect_s=0.01)


async def turn_of(client: Client, message: str) -> tuple[types.SendReceipt, list[object]]:
    """Send a message; return its receipt and the events until the turn ends."""
    receipt = await client.post_message(message=message)
    found: list[object] = []
    async with aclosing(client.get_stream(receipt.conversation_id)) as events:
        async for event in events:
            found.append(event)
            if isinstance(event, types.ChatComplete):
                break
    return receipt, found


def test_a_streamed_message_yields_typed_events(tmp_path: Path) -> None:
    async def check() -> None:
        reply = slow_reply(answers("At nine."), delay_ms=1)
        async with ServerHarness(tmp_path, reply).serve() as served, client_of(served) as client:
            events = [event async for event in client.post_message_and_stream(message="When?")]
            texts = [one.text for one in events if isinstance(one, types.ChatDelta) and one.channel == "answer"]
            assert "".join(texts) == "At nine."
            assert isinstance(events[0], types.ConvStatus)
            assert isinstance(events[-1], types.ChatComplete)
            assert events[-1].reason == "completed"

    run(check)


def test_stored_blocks_have_their_types(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, WRITES, answers("Done.")).serve() as served, client_of(served) as client:
            receipt, _ = await turn_of(client, "Write.")
            page = await client.get_timeline(receipt.conversation_id, limit=1000)
            assert isinstance(page, types.TimelinePage)
            assert not [one for one in page.blocks if isinstance(one, OtherBlock)]
            (call,) = [one for one in page.blocks if isinstance(one, types.ToolCallBlock)]
            assert read_text(call).tool_id == "react.write"
            (answer,) = [one for one in page.blocks if isinstance(one, types.CompletionBlock)]
            assert answer.text == "Done."
            with pytest.raises(TypeError, match="CompletionBlock is not JSON"):
                read_text(answer)

    run(check)


def test_each_form_of_a_timeline_has_its_type(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served, client_of(served) as client:
            receipt, _ = await turn_of(client, "Go.")
            exported = await client.get_timeline(receipt.conversation_id, form="export")
            restored = await client.get_timeline(receipt.conversation_id, form="restored")
            assert isinstance(exported, types.TimelineExport)
            assert (exported.user, exported.tail) == ("ann", len(exported.chain.links))
            assert isinstance(restored, types.RestoredTimeline)
            assert [one.seq for one in restored.blocks] == list(range(1, restored.tail + 1))

    run(check)


def test_files_are_sent_and_downloaded(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, WRITES, answers("Done.")).serve() as served, client_of(served) as client:
            file = AttachedFile("fares.csv", b"line,price\n", "text/csv")
            receipt = await client.post_message(message="Read.", files=[file, AttachedFile("note.txt", b"x")])
            await served.ann.wait_for_state(receipt.conversation_id, "idle")
            found = {one.name: one.path for one in (await client.list_files(receipt.conversation_id)).files}
            assert found.keys() == {"fares.csv", "note.txt", "ferries.md"}
            data = await client.get_file(receipt.conversation_id, path=found["fares.csv"])
            assert data == b"line,price\n"

    run(check)


def test_a_conversation_is_changed_listed_and_deleted(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served, client_of(served) as client:
            receipt, _ = await turn_of(client, "Go.")
            name = receipt.conversation_id
            await client.post_title(name, title="Ferries")
            pin = await client.post_pin(name, path=f"ar:{receipt.turn_id}.user.prompt", pinned=True)
            await client.post_feedback(name, receipt.turn_id, reaction="ok", confidence=None)
            page = await client.list_conversations(words="Ferries", limit=1)
            assert [(one.id, one.state) for one in page.conversations] == [(name, "idle")]
            assert [one.seq for one in (await client.list_pins(name)).pins] == [pin.seq]
            assert await client.delete_conversation(name) is None
            with pytest.raises(ApiError) as gone:
                await client.get_conversation(name)
            assert (gone.value.status, gone.value.code) == (404, "conversation_unknown")

    run(check)


class LosingTransport(httpx2.AsyncBaseTransport):
    """Loses the connection after each piece of an event stream, and remembers where each began."""

    def __init__(self) -> None:
        self.inner = httpx2.AsyncHTTPTransport()
        self.began_after: list[str] = []

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self.inner.handle_async_request(request)
        if response.headers["content-type"].startswith("text/event-stream"):
            self.began_after.append(request.headers.get("last-event-id", ""))
            response.stream = LosingStream(response.stream, 1 + 2 * len(self.began_after))
        return response

    @override
    async def aclose(self) -> None:
        await self.inner.aclose()


class LosingStream(httpx2.AsyncByteStream):
    """A stream that breaks after some pieces."""

    def __init__(self, inner: Any, pieces: int) -> None:
        self.inner, self.pieces = inner, pieces

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self.inner:
            if not self.pieces:
                raise httpx2.ReadError("lost")
            self.pieces -= 1
            yield piece

    @override
    async def aclose(self) -> None:
        await self.inner.aclose()


def test_a_lost_stream_continues_after_the_last_block(tmp_path: Path) -> None:
    async def check() -> None:
        replies = [slow_reply(calls("t.look"), delay_ms=1, chunk=8) for _ in range(3)]
        transport = LosingTransport()
        async with (
            ServerHarness(tmp_path, *replies, slow_reply(answers("Done."), delay_ms=1, chunk=2)).serve() as served,
            httpx2.AsyncClient(transport=transport) as http,
            client_of(served, http) as client,
        ):
            receipt, events = await turn_of(client, "Go.")
            page = await client.get_timeline(receipt.conversation_id, limit=1000)
            assert isinstance(page, types.TimelinePage)
            received = [one for one in events if isinstance(one, types.ChatBlock)]
            assert [one.seq for one in received] == list(range(1, len(received) + 1))
            assert [one.block for one in received] == list(page.blocks[: len(received)])
            assert len(transport.began_after) > 2
            assert transport.began_after[0] == ""
            assert all(transport.began_after[2:])

    run(check)


def test_a_stream_that_cannot_begin_or_continue_raises(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served, client_of(served) as client:
            with pytest.raises(ApiError, match="conversation_unknown"):
                await anext(client.get_stream("conv_1"))
            async with client_of(served, token="unknown") as stranger:
                with pytest.raises(ApiError, match="401 unauthorized"):
                    await anext(stranger.post_message_and_stream(message="x"))
        async with client_of(served) as late:
            with pytest.raises(httpx2.ConnectError):
                await anext(late.get_stream("conv_1"))

    run(check)


def test_an_error_of_a_proxy_is_an_error_of_the_client() -> None:
    async def refuse(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(502, text="<h1>Bad gateway</h1>")

    async def check() -> None:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(refuse)) as http:
            client = Client("http://127.0.0.1:1", http=http)
            with pytest.raises(ApiError, match="502: <h1>Bad gateway") as refused:
                await client.get_health()
            assert refused.value.code == ""
            await client.close()
            assert not http.is_closed

    run(check)


def test_a_path_parameter_cannot_leave_its_place() -> None:
    client = Client("http://127.0.0.1:8700/", tenant="a/b")
    assert client.path("/x/{tenant}/{conversation_id}/y", conversation_id="../z?q") == "/x/a%2Fb/..%2Fz%3Fq/y"


def test_a_block_that_does_not_fit_its_type_is_kept_as_it_is() -> None:
    foreign = {"type": "user.prompt", "text": 3}
    assert read_block(foreign) == OtherBlock(type="user.prompt", fields=foreign)
    assert read_block({"type": "new.type", "x": 1}) == OtherBlock(type="new.type", fields={"type": "new.type", "x": 1})
    assert read_block({}) == OtherBlock(type="", fields={})
    role = {"tool_call_id": "0123456789ab", "role": "content"}
    content = read_block({"type": "react.tool.result", "ts": "", "meta": role})
    assert isinstance(content, types.ResultContentBlock)
    with pytest.raises(Exception, match="block"):
        decode(b'{"seq": 1, "block": 3}', types.ChatBlock)


def documented_programs() -> list[str]:
    page = (ROOT / "docs" / "how-to" / "use-a-client.md").read_text(encoding="utf-8")
    return [token.content for token in MarkdownIt("commonmark").parse(page) if token.info == "py"]


def test_the_documented_programs_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, *others = documented_programs()
    names: dict[str, Any] = {}
    for program in others:
        exec(compile(program, "use-a-client.md", "exec"), names)

    async def check() -> None:
        replies = [slow_reply(answers("At nine."), delay_ms=1)] * 3
        harness = ServerHarness(tmp_path, *replies)
        async with harness.serve() as served, client_of(served) as client:
            local = first.replace("http://127.0.0.1:8700", served.url).replace(
                '"your-token"', '"ann", tenant="home", project="demo"'
            )
            assert len([line for line in first.splitlines() if line]) <= 10
            await asyncio.to_thread(exec, compile(local, "use-a-client.md", "exec"), {})
            assert capsys.readouterr().out == "At nine."
            assert await names["rename_newest"](client) > 1
            assert (await names["send_file"](client)).status == "started"
            assert await names["ask"](client, "When?") == "completed"
            newest = (await client.list_conversations(limit=1)).conversations[0]
            await names["show"](client, newest.id)
            assert capsys.readouterr().out == "At nine.\n"

    run(check)


def test_responses_of_the_client_are_those_of_the_document(tmp_path: Path) -> None:
    async def check() -> None:
        async with (
            ServerHarness(tmp_path, answers("Done.")).serve() as served,
            httpx2.AsyncClient(event_hooks={"response": [check_response]}) as http,
            client_of(served, http) as client,
        ):
            receipt, _ = await turn_of(client, "Go.")
            assert (await client.get_prompt(receipt.conversation_id, round=1)).call.verdict == "same"
            assert (await client.get_status(receipt.conversation_id)).state == "idle"
            assert (await client.get_me()).user == "ann"

    run(check)
