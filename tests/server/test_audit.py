"""The audit trail records accesses, decisions and deletions, successful or not."""

import asyncio
from pathlib import Path

import pytest

from tests.harness.replies import answers
from tests.server.server_harness import LIST, RunningServer, ServerHarness, calls, repeated_reply, run
from timeloom.core.codes import CodedError
from timeloom.server.auth.audit_log import AuditEntry, AuditLog, AuditPage, AuditQuery

AUDIT = "/audit/home/demo"


def entry(number: int, project: str = "demo") -> AuditEntry:
    return AuditEntry(
        id=str(number), ts="t", tenant="home", project=project, user="root", role="admin", operation="delete"
    )


async def trail(served: RunningServer) -> list[tuple[str, str, str, int]]:
    said = (await served.client("admin").get(AUDIT)).json()["entries"]
    return [(one["user"], one["operation"], one.get("owner", ""), one.get("status", 0)) for one in said]


def test_who_is_let_in_to_what_is_not_theirs_is_recorded_before_and_after(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            conversation = str((await served.ann.send_message("my secret"))["conversation_id"])
            await served.ann.wait_for_state(conversation, "idle")
            assert await trail(served) == []
            admin, url = served.client("admin"), f"{LIST}/{conversation}"
            await admin.get(f"{url}/timeline")
            await served.client("approver").get(f"{url}/status")
            await admin.get(LIST, user="ann")
            assert await trail(served) == [
                ("root", "get_timeline", "ann", 0),
                ("root", "get_timeline", "ann", 200),
                ("eve", "get_status", "ann", 0),
                ("eve", "get_status", "ann", 200),
                ("root", "list_conversations", "ann", 0),
                ("root", "list_conversations", "ann", 200),
            ]
            assert "secret" not in (tmp_path / "audit" / "home" / "demo.jsonl").read_text()

    run(check)


def test_decisions_erasures_and_deletions_are_recorded_whoever_does_them(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, calls("t.send"), answers("Done.")).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            await served.ann.wait_for_state(conversation, "waiting")
            url = f"{LIST}/{conversation}"
            await served.ann.post(f"{url}/approvals/000000000000", {"approved": True})
            await served.ann.post(f"{url}/erase", {"all": True})
            await served.http.delete(url, headers=served.ann.headers)
            assert await trail(served) == [
                ("ann", "post_approval", "", 0),
                ("ann", "post_approval", "", 409),
                ("ann", "post_erase", "", 0),
                ("ann", "post_erase", "", 409),
                ("ann", "delete_conversation", "", 0),
                ("ann", "delete_conversation", "", 204),
            ]

    run(check)


def test_what_cannot_be_recorded_is_not_done(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            await served.ann.wait_for_state(conversation, "idle")
            (tmp_path / "audit").write_text("no folder")
            refused = await served.http.delete(f"{LIST}/{conversation}", headers=served.ann.headers)
            assert (refused.status_code, refused.json()["code"]) == (503, "store_unwritable")
            assert (await served.ann.get(f"{LIST}/{conversation}")).status_code == 200

    run(check)


def test_a_trail_is_read_page_by_page_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    kept = AuditLog(tmp_path)

    async def pages(cursor: str = "") -> tuple[list[str], str]:
        found: list[str] = []
        while True:
            page: AuditPage = await kept.page("home", "demo", AuditQuery(cursor=cursor, limit=2))
            found += [one.id for one in page.entries]
            if page.cursor == cursor or not page.entries:
                return found, page.cursor
            cursor = page.cursor

    async def check() -> None:
        assert await pages() == ([], "0")
        for number in range(5):
            await kept.add(entry(number))
        await kept.add(entry(9, "other"))
        found, cursor = await pages()
        assert found == ["0", "1", "2", "3", "4"]
        await asyncio.gather(*(kept.add(entry(number)) for number in range(5, 8)))
        assert sorted((await pages(cursor))[0]) == ["5", "6", "7"]
        for wrong in ("7", "-1", "x", "99999999", "٣"):
            with pytest.raises(CodedError, match="cursor"):
                await kept.page("home", "demo", AuditQuery(cursor=wrong))

    run(check)


def test_a_line_that_was_cut_off_costs_itself_alone(tmp_path: Path) -> None:
    kept, file = AuditLog(tmp_path / "audit"), tmp_path / "audit" / "home" / "demo.jsonl"

    async def check() -> None:
        await kept.add(entry(1))
        with file.open("ab") as cut:
            cut.write(b'{"id": "2"')
        await kept.add(entry(3))
        page = await kept.page("home", "demo", AuditQuery())
        assert [one.id for one in page.entries] == ["1", "3"]
        assert file.stat().st_mode & 0o777 == 0o600
        assert {folder.stat().st_mode & 0o777 for folder in (file.parent, file.parent.parent)} == {0o700}

    run(check)
