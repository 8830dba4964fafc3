"""Files over HTTP: the agent's outputs and the user's attachments, by path and by resource name."""

import hashlib
import shutil
from pathlib import Path
from typing import cast
from urllib.parse import quote

import httpx2
import pytest

from tests.harness.exec import PlainSandbox
from tests.harness.replies import answers
from tests.server.server_harness import LIST, ApiClient, Json, ServerHarness, calls, run
from timeloom.app import AgentSettings
from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    AttachmentMeta,
    ConversationStarted,
    Digest,
    ResultContent,
    ResultDigest,
    ToolCall,
    ToolError,
    TurnEnded,
    TurnStarted,
)
from timeloom.core.blocks.digest import Visibility
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.policy.gates import Caller
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.ports.store import Store
from timeloom.runtime.read.files import PIECE_BYTES, get_artifact_url
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.sqlite import SqliteStore
from timeloom.tools.exec.tool import ExecTool
from timeloom.tools.react.toolset import react_tools
from timeloom.tools.registry import ToolRegistry

NAME = ConversationId("conv_1")
TURN = TurnId("turn_1")
TS = "2026-02-09T02:14:32.676425Z"
PICTURE = bytes(range(256)) * 4000
"""Larger than one piece."""


def made(
    rel: str, mime: str, *, call: str = "c1", data: bytes | str | None = None, size: int | None = None, **more: object
) -> list[AnyBlock]:
    """Return the blocks of a file that a tool wrote: a call, its digest, and its content if the timeline has it."""
    path, call_id = f"fi:{TURN}.{rel}", CallId(call)
    said = more.get("visibility", "external")
    visibility: Visibility | None = said if said in ("external", "internal") else None
    error = ToolError("tool_call_error", "no") if more.get("fails") else None
    known = size if size is not None else len(data) if isinstance(data, bytes) else len((data or "").encode())
    digest = Digest(artifact_path=path, mime=mime, kind="file", visibility=visibility, size_bytes=known, error=error)
    tool_id = str(more.get("tool_id", "t.make"))
    blocks: list[AnyBlock] = [
        ToolCall(tool_id=tool_id, tool_call_id=call_id),
        ResultDigest(tool_call_id=call_id, digest=digest),
    ]
    if data is not None:
        text, raw = (data, None) if isinstance(data, str) else (None, data)
        blocks.append(ResultContent(tool_call_id=call_id, artifact_path=path, mime=mime, text=text, data=raw))
    return blocks


def sent(rel: str, text: str) -> list[AnyBlock]:
    path = f"fi:{TURN}.{rel}"
    return [
        AttachmentMeta(digest=Digest(artifact_path=path, mime="text/plain", size_bytes=len(text.encode()))),
        Attachment(artifact_path=path, mime="text/plain", text=text),
    ]


async def keep(store: Store, *blocks: AnyBlock, user: str = "ann") -> None:
    header = ConversationStarted(tenant="home", project="demo", user=user)
    inner = [TurnStarted(n=1), *blocks, TurnEnded(reason="completed")]
    await store.append(NAME, 0, [Draft(NO_TURN, TS, header), *(Draft(TURN, TS, block) for block in inner)])


async def got(client: ApiClient, rel: str, *, disposition: str = "attachment", **headers: str) -> httpx2.Response:
    query = {"path": f"fi:{TURN}.{rel}", "disposition": disposition}
    said = client.headers | {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.http.get(f"{LIST}/{NAME}/file", params=query, headers=said)


async def asked(client: ApiClient, route: str, path: str) -> httpx2.Response:
    return await client.http.get(f"{LIST}/{NAME}/{route}", params={"path": path}, headers=client.headers)


async def place(folder: Path, rel: str, data: bytes) -> Path:
    file = AgentSettings(data_dir=folder).workspaces / NAME / TURN / rel
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_file_is_given_as_it_was_made(kind: str, tmp_path: Path) -> None:
    async def check() -> None:
        store: Store = MemoryStore() if kind == "memory" else await SqliteStore.open(tmp_path / "data")
        await keep(
            store,
            *made("outputs/a.png", "image/png", data=PICTURE),
            *made("files/été.html", "text/html", call="c2", data="<script>alert('é')</script>"),
            *sent("user.attachments/note.txt", "long " * 10_000),
            *sent("external.form.attachments/m1/note.txt", "short"),
        )
        assert len(PICTURE) > PIECE_BYTES
        async with ServerHarness(tmp_path, answers("x"), store=store).serve() as served:
            picture = await got(served.ann, "outputs/a.png")
            assert (picture.status_code, picture.content) == (200, PICTURE)
            assert picture.headers["etag"] == f'"{hashlib.sha256(PICTURE).hexdigest()}"'
            assert picture.headers["content-length"] == str(len(PICTURE))
            page = await got(served.ann, "files/été.html", disposition="inline")
            assert page.text == "<script>alert('é')</script>"
            assert page.headers["content-type"] == "text/html; charset=utf-8"
            assert page.headers["content-disposition"] == (
                "attachment; filename=\"_t_.html\"; filename*=UTF-8''%C3%A9t%C3%A9.html"
            )
            assert page.headers["content-security-policy"].startswith("sandbox;")
            assert page.headers["x-content-type-options"] == "nosniff"
            assert (await got(served.ann, "user.attachments/note.txt")).text == "long " * 10_000
            shown = await got(served.ann, "external.form.attachments/m1/note.txt", disposition="inline")
            assert (shown.text, shown.headers["content-disposition"]) == ("short", 'inline; filename="note.txt"')
        await store.close()

    run(check)


def test_a_part_of_a_file_is_given_and_nothing_is_sent_twice(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("x"))
        await keep(stage.store, *made("outputs/a.png", "image/png", data=PICTURE))
        async with stage.serve() as served:
            size = len(PICTURE)
            for asked, start, stop in (
                ("bytes=0-9", 0, 10),
                (f"bytes={size - 5}-", size - 5, size),
                ("bytes=-7", size - 7, size),
                (f"bytes=10-{size * 2}", 10, size),
            ):
                part = await got(served.ann, "outputs/a.png", range=asked)
                assert (part.status_code, part.content) == (206, PICTURE[start:stop]), asked
                assert part.headers["content-range"] == f"bytes {start}-{stop - 1}/{size}"
                tag = part.headers["etag"]
            for asked in ("bytes=0-1,3-4", "bytes=x", "lines=1-2"):
                assert (await got(served.ann, "outputs/a.png", range=asked)).status_code == 200
            beyond = await got(served.ann, "outputs/a.png", range=f"bytes={size}-")
            assert (beyond.status_code, beyond.json()["code"]) == (416, "range_unsatisfiable")
            assert beyond.headers["content-range"] == f"bytes */{size}"
            for told, status in ((tag, 206), ('"other"', 200), ("Sat, 01 Jan 2000 00:00:00 GMT", 200)):
                response = await got(served.ann, "outputs/a.png", range="bytes=0-9", if_range=told)
                assert response.status_code == status, told
            unchanged = await got(served.ann, "outputs/a.png", if_none_match=f'"x", W/{tag}')
            assert (unchanged.status_code, unchanged.content) == (304, b"")

    run(check)


def test_what_the_timeline_has_no_bytes_of_is_read_from_the_workspace(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("x"))
        data = b"PK\x03\x04" + bytes(PIECE_BYTES)
        await keep(
            stage.store,
            *made("outputs/a.zip", "application/zip", size=len(data)),
            *made("outputs/cut.txt", "text/plain", call="c2", data="the beg", size=13),
            *made("outputs/gone.zip", "application/zip", call="c3", size=9),
            *made("outputs/link.zip", "application/zip", call="c4", size=9),
        )
        await place(tmp_path, "outputs/a.zip", data)
        await place(tmp_path, "outputs/cut.txt", b"the beginning")
        secret = tmp_path / "secret"
        secret.write_bytes(b"secret")
        (AgentSettings(data_dir=tmp_path).workspaces / NAME / TURN / "outputs/link.zip").symlink_to(secret)
        async with stage.serve() as served:
            whole = await got(served.ann, "outputs/a.zip")
            assert (whole.content, whole.headers["content-type"]) == (data, "application/zip")
            assert whole.headers["etag"] == f'"{hashlib.sha256(data).hexdigest()}"'
            part = await got(served.ann, "outputs/a.zip", range="bytes=1-3")
            assert (part.status_code, part.content) == (206, b"K\x03\x04")
            assert (await got(served.ann, "outputs/cut.txt")).text == "the beginning"
            for missing in ("outputs/gone.zip", "outputs/link.zip"):
                response = await got(served.ann, missing)
                assert (response.status_code, response.json()["code"]) == (404, "path_not_found")

    run(check)


def test_what_is_not_for_others_does_not_exist(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("x"))
        await keep(
            stage.store,
            *made("files/secret.txt", "text/plain", data="secret", visibility="internal"),
            *made("files/untold.txt", "text/plain", call="c2", data="untold", visibility="none"),
            *made("files/was.txt", "text/plain", call="c3", data="open"),
            *made("files/was.txt", "text/plain", call="c4", data="closed", visibility="internal"),
            *made("files/read.txt", "text/plain", call="c5", data="read", tool_id="react.read"),
        )
        for rel in ("files/secret.txt", "files/never_told.txt", "files/read.txt"):
            await place(tmp_path, rel, b"on disk")
        async with stage.serve() as served:
            for rel in ("secret.txt", "untold.txt", "was.txt", "read.txt", "never_told.txt", "none.txt"):
                for client in (served.ann, served.client("admin")):
                    assert (await got(client, f"files/{rel}")).status_code == 404, rel
            assert (await served.ann.get(f"{LIST}/{NAME}/files")).json()["files"] == []

    run(check)


def test_a_version_that_failed_leaves_the_one_before_it(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("x"))
        await keep(
            stage.store,
            *made("files/a.txt", "text/plain", data="first"),
            *made("files/a.txt", "text/plain", call="c2", data="second"),
            *made("files/a.txt", "text/plain", call="c3", fails=True),
        )
        async with stage.serve() as served:
            assert (await got(served.ann, "files/a.txt")).text == "second"
            (listed,) = (await served.ann.get(f"{LIST}/{NAME}/files")).json()["files"]
            assert (listed["path"], listed["size_bytes"]) == (f"fi:{TURN}.files/a.txt", 6)

    run(check)


def test_a_file_that_was_deleted_is_not_listed_and_an_empty_one_is(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("x"))
        deleted = ResultContent(tool_call_id=CallId("c2"), artifact_path=f"fi:{TURN}.files/a.txt", mime="text/plain")
        await keep(
            stage.store,
            *made("files/a.txt", "text/plain", data="first"),
            *made("files/a.txt", "text/plain", call="c2"),
            deleted,
            *made("files/empty.txt", "text/plain", call="c3", data=""),
        )
        async with stage.serve() as served:
            assert (await got(served.ann, "files/a.txt")).status_code == 404
            assert (await got(served.ann, "files/empty.txt")).content == b""
            listed = (await served.ann.get(f"{LIST}/{NAME}/files")).json()["files"]
            assert [one["path"] for one in listed] == [f"fi:{TURN}.files/empty.txt"]

    run(check)


class ExecHarness(ServerHarness):
    """A server whose agent runs programs."""

    def registry(self) -> ToolRegistry:
        return ToolRegistry((*react_tools(), ExecTool(PlainSandbox())))


def test_a_file_that_a_program_edits_is_still_given_to_the_user(tmp_path: Path) -> None:
    async def check() -> None:
        edits = "next(OUT_DIR.rglob('plan.md')).write_text('# The second plan, longer')"
        program = f"{calls('exec_tools.execute_code_python')}<channel:code>{edits}</channel:code>"
        wrote = calls("react.write", path="plan.md", content="# The first plan")
        async with ExecHarness(tmp_path, wrote, program, answers("done")).serve() as served:
            conversation = str((await served.ann.send_message("plan it"))["conversation_id"])
            await served.ann.wait_for_state(conversation, "idle")
            (listed,) = (await served.ann.get(f"{LIST}/{conversation}/files")).json()["files"]
            assert listed["size_bytes"] == len("# The second plan, longer")
            file = await served.ann.http.get(listed["url"], headers=served.ann.headers)
            assert file.text == "# The second plan, longer"
            blocks = [block for block in await served.ann.blocks(conversation) if block.get("path") == listed["path"]]
            for block in blocks:
                meta = cast(Json, block["meta"])
                assert (meta["hosted_uri"], meta["rn"]) == (listed["url"], listed["rn"])
                assert meta["key"] == f"{conversation}/{meta['physical_path']}"
            assert len(blocks) == 2

    run(check)


def test_paths_that_are_no_files_are_refused(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("x"))
        await keep(stage.store)
        async with stage.serve() as served:
            for path in (
                "fi:turn_1.files/../../x",
                "fi:turn_1.files/%2e%2e/x",
                "/etc/passwd",
                "ar:turn_1.user.prompt",
                "",
            ):
                response = await asked(served.ann, "file", path)
                assert response.status_code == 400, path
            assert (await served.ann.get(f"{LIST}/{NAME}/file")).status_code == 400

    run(check)


def test_what_was_erased_is_not_served(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("x"))
        unsized = [AttachmentMeta(digest=Digest(artifact_path=f"fi:{TURN}.user.attachments/u.txt", mime="text/plain"))]
        await keep(
            stage.store,
            *made("files/a.txt", "text/plain", data="my secret"),
            *sent("user.attachments/b.txt", "another secret"),
            *made("files/c.txt", "text/plain", data="not secret", call="c2"),
            *unsized,
        )
        async with stage.serve() as served:
            gone = [f"fi:{TURN}.files/a.txt", f"fi:{TURN}.user.attachments/b.txt"]
            erased = await served.ann.post(f"{LIST}/{NAME}/erase", {"paths": gone})
            assert erased.status_code == 200, erased.text
            assert (await got(served.ann, "files/a.txt")).status_code == 404
            left = [f"fi:{TURN}.files/c.txt", f"fi:{TURN}.user.attachments/u.txt"]
            assert [one["path"] for one in (await served.ann.get(f"{LIST}/{NAME}/files")).json()["files"]] == left
            fetched = (await served.ann.post(f"{LIST}/fetch", {"conversation_id": NAME})).json()
            assert [one["path"] for one in fetched["turns"][0]["files"]] == left

    run(check)


def test_files_are_listed_page_by_page_with_where_they_are(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("x"))
        blocks = [block for n in range(5) for block in made(f"files/{n}.txt", "text/plain", call=f"c{n}", data="x" * n)]
        await keep(stage.store, *blocks, *sent("user.attachments/a.txt", "a"))
        async with stage.serve() as served:
            cards, cursor = list[Json](), ""
            while True:
                page = (await served.ann.get(f"{LIST}/{NAME}/files", limit=2, cursor=cursor)).json()
                cards += page["files"]
                if not (cursor := page["cursor"]):
                    break
            assert [card["name"] for card in cards] == ["0.txt", "1.txt", "2.txt", "3.txt", "4.txt", "a.txt"]
            assert (await served.http.get(str(cards[3]["url"]), headers=served.ann.headers)).text == "xxx"
            assert (await served.ann.get(f"{LIST}/{NAME}/files", cursor="-1")).status_code == 400

    run(check)


RN = f"ef:home:demo:chatbot:file:ann:{NAME}:{TURN}:artifact:outputs/a.png"

TAMPERED = {
    "tenant": RN.replace(":home:", ":away:"),
    "project": RN.replace(":demo:", ":other:"),
    "user": RN.replace(":ann:", ":bob:"),
    "conversation": RN.replace(NAME, "conv_2"),
    "turn": RN.replace(TURN, "turn_2"),
    "path": RN.replace("a.png", "b.png"),
    "area": RN.replace("outputs/", "files/"),
    "stage and role": RN.replace("file:", "attachment:").replace("artifact:outputs/", "user:"),
}


def test_a_resource_name_leads_to_its_file_and_no_part_of_it_can_be_another(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("x"))
        await keep(stage.store, *made("outputs/a.png", "image/png", data=PICTURE))
        async with stage.serve() as served:
            for client in (served.ann, served.client("admin")):
                card = (await client.post("/by-rn", {"rn": RN})).json()
                assert (card["rn"], card["size_bytes"], card["mime"]) == (RN, len(PICTURE), "image/png")
                assert (await served.http.get(card["url"], headers=client.headers)).content == PICTURE
            for what, rn in TAMPERED.items():
                for token in ("ann", "admin", "tenant", "tenant-admin"):
                    response = await served.client(token).post("/by-rn", {"rn": rn})
                    assert (response.status_code, response.json()["code"]) == (404, "path_not_found"), (what, token)
            for token in ("bob", "project", "tenant", "tenant-admin"):
                assert (await served.client(token).post("/by-rn", {"rn": RN})).status_code == 404, token
            assert (await served.client("nobody").post("/by-rn", {"rn": RN})).status_code == 401
            for rn in ("", "x", RN.replace("chatbot", "robot"), RN.replace("a.png", "../a.png")):
                assert (await served.ann.post("/by-rn", {"rn": rn})).status_code == 400, rn

    run(check)


def test_the_library_and_the_server_name_the_same_address(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("x"))
        await keep(stage.store, *made("outputs/tab le.csv", "text/csv", data="a,b"))
        async with stage.serve() as served:
            path = f"fi:{TURN}.outputs/tab le.csv"
            card = (await asked(served.ann, "file/url", path)).json()
            owner = Caller(tenant="home", project="demo", user="ann")
            assert get_artifact_url(path, owner, NAME, served.url) == f"{served.url}{card['url']}"
            assert card["url"].endswith(f"?path={quote(path, safe='/:')}")
            assert (await served.http.get(card["url"], headers=served.ann.headers)).text == "a,b"
            assert (await asked(served.ann, "file/url", f"fi:{TURN}.files/no")).status_code == 404

    run(check)


def test_a_file_that_a_turn_wrote_is_on_its_card(tmp_path: Path) -> None:
    async def check() -> None:
        text = "# A report of more than a few words\n"
        steps = (
            calls("react.write", path="outputs/report.md", content=text),
            calls("react.write", path="files/own.md", content=text, channel="internal"),
            answers("Done."),
        )
        async with ServerHarness(tmp_path, *steps).serve() as served:
            conversation = str((await served.ann.send_message("write"))["conversation_id"])
            await served.ann.wait_for_state(conversation, "idle")
            (turn,) = (await served.ann.post(f"{LIST}/fetch", {"conversation_id": conversation})).json()["turns"]
            (card,) = turn["files"]
            assert (card["name"], card["mime"], card["size_bytes"]) == ("report.md", "text/markdown", len(text))
            assert (await served.http.get(card["url"], headers=served.ann.headers)).text == text

    run(check)


def test_a_payload_that_is_lost_is_the_servers_own_fault(tmp_path: Path) -> None:
    async def check() -> None:
        async with await SqliteStore.open(tmp_path / "data") as store:
            await keep(store, *made("outputs/a.png", "image/png", data=PICTURE))
            async with ServerHarness(tmp_path, answers("x"), store=store).serve() as served:
                shutil.rmtree(tmp_path / "data" / "blobs")
                lost = await got(served.ann, "outputs/a.png")
                assert (lost.status_code, lost.json()["code"]) == (500, "blob_missing")

    run(check)
