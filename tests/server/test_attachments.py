"""Attachments: text files that come along with messages and events, counted while they arrive, under harmless paths."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import msgspec
import pytest

from tests.harness.replies import answers, slow_reply
from tests.server.server_harness import CHAT, LIST, ApiClient, Json, ServerHarness, calls, repeated_reply, run
from timeloom.core.citations.rewriter import CitationRewriter
from timeloom.server.http.uploads import UploadLimits

pytestmark = pytest.mark.slow

BOUNDARY = "x-boundary"


def part(disposition: str, content: bytes, mime: str = "") -> bytes:
    kind = f"\r\nContent-Type: {mime}" if mime else ""
    head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; {disposition}{kind}\r\n\r\n"
    return head.encode() + content + b"\r\n"


def field(name: str, value: str) -> bytes:
    return part(f'name="{name}"', value.encode())


def file(name: str, content: bytes, mime: str = "text/plain") -> bytes:
    return part(f'name="files"; filename="{name}"', content, mime)


async def post(client: ApiClient, path: str, *parts: bytes, end: bytes = b"--x-boundary--\r\n") -> httpx2.Response:
    headers = client.headers | {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
    return await client.http.post(path, content=b"".join(parts) + end, headers=headers)


def of_type(blocks: list[Json], kind: str) -> list[Json]:
    return [block for block in blocks if block["type"] == kind]


def test_files_of_a_message_are_attachments_of_its_turn_and_sources(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Read.")).serve() as served:
            parts = [
                file("fares.csv", b"from,to\nnorden,juist\n", "text/csv"),
                field("message", "Which is cheaper?"),
                file("Notes.md", b"# Notes", "application/octet-stream"),
                file("notes.md", b"others"),
            ]
            response = await post(served.ann, CHAT, *parts)
            assert response.status_code == 202, response.text
            said: Json = response.json()
            conversation, turn = str(said["conversation_id"]), said["turn_id"]
            await served.ann.wait_for_state(conversation, "idle")
            blocks = await served.ann.blocks(conversation)
            attached = of_type(blocks, "user.attachment")
            assert [(one["path"], one["mime"], one["text"]) for one in attached] == [
                (f"fi:{turn}.user.attachments/fares.csv", "text/csv", "from,to\nnorden,juist\n"),
                (f"fi:{turn}.user.attachments/Notes.md", "text/markdown", "# Notes"),
                (f"fi:{turn}.user.attachments/notes-2.md", "text/plain", "others"),
            ]
            assert len(of_type(blocks, "user.attachment.meta")) == 3
            (sources,) = of_type(blocks, "conv.sources.added")
            assert [row["title"] for row in json.loads(str(sources["text"]))["rows"]] == [
                "fares.csv",
                "Notes.md",
                "notes-2.md",
            ]
            (prompt,) = of_type(blocks, "user.prompt")
            assert prompt["text"] == "Which is cheaper?"
            pool, cursor = f"{LIST}/{conversation}/sources", ""
            for names in (["fares.csv", "Notes.md"], ["notes-2.md"]):
                page = (await served.ann.get(pool, limit=2, cursor=cursor)).json()
                assert [row["title"] for row in page["rows"]] == names
                cursor = page["cursor"]
            assert cursor == "" and (await served.ann.get(pool, limit=3)).json()["cursor"] == ""
            assert (await served.ann.get(pool, cursor="x")).json()["code"] == "cursor_malformed"

    run(check)


@pytest.mark.parametrize("kind", ["followup", "steer", "alert"])
def test_files_of_an_event_are_under_the_paths_of_the_event(tmp_path: Path, kind: str) -> None:
    async def check() -> None:
        stage = ServerHarness(
            tmp_path, calls("t.wait") if kind == "steer" else slow_reply(calls("t.look"), delay_ms=20), answers("Read.")
        )
        async with stage.serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            if kind == "steer":
                await stage.waiting.wait()
            parts = [field("kind", kind), field("text", "look at this"), file("a.txt", b"one"), file("a.txt", b"two")]
            said: Json = (await post(served.ann, f"/events/home/demo/{conversation}", *parts)).json()
            assert said["status"] in ("followup", "steered", "told"), said
            await served.ann.wait_for_state(conversation, "idle")
            blocks = await served.ann.blocks(conversation)
            assert isinstance(said["seq"], int)
            event = blocks[said["seq"] - 1]
            message = str(event["path"]).rpartition(".")[2]
            place = f"fi:{said['turn_id']}.external.{kind}.attachments/{message}"
            attached = of_type(blocks, "user.attachment")
            assert [(one["path"], one["text"]) for one in attached] == [
                (f"{place}/a.txt", "one"),
                (f"{place}/a-2.txt", "two"),
            ]
            # They follow the event at once.
            assert blocks[said["seq"] + 1] == attached[0]

    run(check)


@pytest.mark.parametrize(("kind", "family"), [("steer", "user"), ("followup", "user"), ("form", "external.form")])
def test_files_of_what_opens_the_next_turn_are_there(tmp_path: Path, kind: str, family: str) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            await served.ann.wait_for_state(conversation, "idle")
            parts = [field("kind", kind), field("text", "look"), file("a.txt", b"one")]
            said: Json = (await post(served.ann, f"/events/home/demo/{conversation}", *parts)).json()
            assert said["status"] == "started"
            await served.ann.wait_for_state(conversation, "idle")
            (attached,) = of_type(await served.ann.blocks(conversation), "user.attachment")
            assert str(attached["path"]).startswith(f"fi:{said['turn_id']}.{family}.attachments/")

    run(check)


@pytest.mark.parametrize(
    ("name", "content", "mime", "code"),
    [
        ("a.png", b"\x89PNG\0", "image/png", "attachment_type_unavailable"),
        ("a.pdf", b"%PDF", "application/octet-stream", "attachment_type_unavailable"),
        ("a.json", b"{}", "application/json", "attachment_type_unavailable"),
        ("a.txt", b"\x89PNG\0", "text/plain", "attachment_type_unavailable"),
        ("a.txt", b"x", "text/plain/../x", "attachment_type_unavailable"),
        ("a.txt", "Größe".encode("latin-1"), "text/plain", "attachment_type_unavailable"),
        ("a.txt", "Größe".encode("latin-1"), "text/plain; charset=utf-8", "attachment_type_unavailable"),
        ("a.txt", b"x", "text/plain; charset=rot13", "attachment_type_unavailable"),
        ("../../etc/passwd", b"x", "text/plain", "path_escapes_root"),
        ("/etc/passwd", b"x", "text/plain", "path_escapes_root"),
        ("a\\\\b.txt", b"x", "text/plain", "path_escapes_root"),
        ("%2e%2e%2fa.txt", b"x", "text/plain", "path_escapes_root"),
        ("a\tb.txt", b"x", "text/plain", "path_name_unsafe"),
        ("con.txt", b"x", "text/plain", "path_name_unsafe"),
        ("n" * 300, b"x", "text/plain", "path_too_long"),
    ],
)
def test_what_is_no_text_or_has_no_harmless_name_is_refused(
    tmp_path: Path, name: str, content: bytes, mime: str, code: str
) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("Done."))
        async with stage.serve() as served:
            response = await post(served.ann, CHAT, field("message", "go"), file(name, content, mime))
            assert response.json()["code"] == code
            assert response.json()["detail"].startswith(f"'{name[0]}")
            assert "cannot be attached: " in response.json()["detail"]
            assert response.status_code == (415 if code == "attachment_type_unavailable" else 400)
            assert await stage.store.conversation_ids() == []

    run(check)


def test_a_text_in_another_charset_is_read_as_it_was_written(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Read.")).serve() as served:
            parts = [
                file("latin.txt", "Größe: 5 €".encode("cp1252"), 'text/plain; charset="Windows-1252"'),
                file("wide.txt", "Größe".encode("utf-16")),
                file("marked.txt", b"\xef\xbb\xbfx", "text/plain; charset=latin1"),
                field("message", "go"),
            ]
            said: Json = (await post(served.ann, CHAT, *parts)).json()
            attached = of_type(await served.ann.blocks(str(said["conversation_id"])), "user.attachment")
            assert [one["text"] for one in attached] == ["Größe: 5 €", "Größe", "x"]

    run(check)


def test_an_upload_is_refused_as_soon_as_it_is_too_large(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("Done."))
        stage.uploads = UploadLimits(max_bytes=1_000_000, max_files=2, max_field_bytes=1_000)
        async with stage.serve() as served:

            async def endless() -> AsyncIterator[bytes]:
                yield field("message", "go") + file("a.txt", b"")[:-2]
                while True:
                    yield b"x" * 65_536

            headers = served.ann.headers | {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
            try:
                response = await served.http.post(CHAT, content=endless(), headers=headers)
                assert (response.status_code, response.json()["code"]) == (413, "request_too_large")
            except httpx2.TransportError:
                # The server has answered and closed, and the client was still sending.
                pass
            assert await stage.store.conversation_ids() == []
            for parts in (
                [field("message", "go"), *(file(f"{n}.txt", b"x") for n in range(3))],
                [field("message", "x" * 1_001)],
                [field("message", "go"), file("a.txt", b"x" * 600_000), file("b.txt", b"x" * 600_000)],
            ):
                response = await post(served.ann, CHAT, *parts)
                assert (response.status_code, response.json()["code"]) == (413, "request_too_large")
            assert await stage.store.conversation_ids() == []

    run(check)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [field("message", "")],
        [field("message", "go"), field("message", "again")],
        [field("message", "go"), field("unknown", "x")],
        [part('name="message"', b"\xff")],
        [part("filename=x", b"x")],
        [b"no boundary at all"],
        [field("message", "go"), b"--x-boundary\r\n" + b"A: b\r\n" * 20 + b"\r\n"],
    ],
)
def test_a_form_that_is_none_is_refused(tmp_path: Path, parts: list[bytes]) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            response = await post(served.ann, CHAT, *parts)
            assert (response.status_code, response.json()["code"]) == (400, "request_malformed")

    run(check)


@pytest.mark.parametrize("disposition", ['name="files"; filename=""', 'name="files"'])
def test_a_file_without_a_name_is_told_so(tmp_path: Path, disposition: str) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            parts = (part(disposition, b"something is in it", "text/plain"), field("message", "go"))
            response = await post(served.ann, CHAT, *parts)
            assert (response.status_code, response.json()["code"]) == (400, "request_malformed")
            assert "a file has no name" in response.json()["detail"]

    run(check)


def test_a_form_that_is_cut_off_or_has_no_boundary_is_refused(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            cut = await post(served.ann, CHAT, field("message", "go"), file("a.txt", b"x"), end=b"")
            assert (cut.status_code, cut.json()["code"]) == (400, "request_malformed")
            for kind in ("multipart/form-data", "multipart/form-data; boundary=" + "b" * 100):
                headers = served.ann.headers | {"content-type": kind}
                response = await served.http.post(CHAT, content=b"--b--", headers=headers)
                assert (response.status_code, response.json()["code"]) == (400, "request_malformed")

    run(check)


def test_a_form_without_a_chosen_file_is_a_message(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            empty = part('name="files"; filename=""', b"", "application/octet-stream")
            response = await post(served.ann, CHAT, field("message", "go"), empty)
            assert response.status_code == 202
            conversation = str(response.json()["conversation_id"])
            await served.ann.wait_for_state(conversation, "idle")
            assert of_type(await served.ann.blocks(conversation), "user.attachment") == []

    run(check)


@pytest.mark.parametrize("kind", ["cancel", "steer"])
def test_what_ends_a_turn_has_no_attachments(tmp_path: Path, kind: str) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            parts = [field("kind", kind), file("a.txt", b"x")]
            response = await post(served.ann, f"/events/home/demo/{conversation}", *parts)
            assert (response.status_code, response.json()["code"]) == (400, "request_malformed")

    run(check)


def test_the_document_says_that_files_may_be_sent(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            described = msgspec.json.decode((await served.http.get("/openapi.json")).content)
            body = described["paths"]["/chat/{tenant}/{project}"]["post"]["requestBody"]["content"]
            assert set(body) == {"application/json", "multipart/form-data"}

    run(check)


def test_the_citations_of_an_answer_are_marks_while_it_is_written(tmp_path: Path) -> None:
    async def check() -> None:
        text = "Juist is cheaper [[S:1]], or not [[S:9]] [[S:"
        async with ServerHarness(tmp_path, slow_reply(answers(text), delay_ms=2, chunk=3)).serve() as served:
            parts = [field("message", "Which?"), file("fares.csv", b"a,b", "text/csv")]
            response = await post(served.ann, CHAT, *parts)
            heard: list[str] = []
            async with served.ann.stream_conversation(str(response.json()["conversation_id"])) as events:
                async for frame in events:
                    if frame.event == "chat.delta" and frame.data["channel"] == "answer":
                        heard.append(str(frame.data["text"]))
                    if frame.event == "chat.complete":
                        break
            rewriter = CitationRewriter([{"sid": 1, "title": "fares.csv", "url": ""}])
            assert "".join(heard) == rewriter.feed(text) + rewriter.close() != text

    run(check)
