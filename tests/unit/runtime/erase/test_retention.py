"""Conversations older than the retention period are deleted with all traces; those in use or marked stay."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from tests.harness.context import ManualClock
from timeloom.core.blocks import ConversationStarted, TurnEnded, TurnStarted, UserPrompt
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.data_folder import build_side_file_erasers
from timeloom.ports.clock import timestamp
from timeloom.ports.ids import RandomIds
from timeloom.ports.reader import ConversationInfo, ConversationQuery
from timeloom.ports.records import RecordQuery
from timeloom.runtime.erase.kept import KIND, is_kept, keep_conversation, release_conversation
from timeloom.runtime.erase.retention import RetentionContext, apply_retention
from timeloom.server.auth.audit_log import AuditLog, AuditQuery, verify_audit_logs
from timeloom.server.auth.retention import RetentionJob, run_daily
from timeloom.stores.sqlite import SqliteStore

DAY_S = 24 * 3600
SECRET = "swordfish-4711"
OLD, NEW, OPEN, HELD, KEPT = map(ConversationId, ("conv_old", "conv_new", "conv_open", "conv_held", "conv_kept"))
TURN = TurnId("turn_1")


async def add(store: SqliteStore, clock: ManualClock, name: str, *, ended: bool = True, tenant: str = "home") -> None:
    blocks = [TurnStarted(n=1), UserPrompt(text=f"{SECRET} {name}"), *([TurnEnded(reason="completed")] * ended)]
    header = Draft(NO_TURN, timestamp(clock.epoch_us()), ConversationStarted(tenant=tenant, project="demo", user="ann"))
    drafts = [Draft(TURN, timestamp(clock.epoch_us()), block) for block in blocks]
    await store.append(ConversationId(name), 0, [header, *drafts])


async def make_store(data: Path, clock: ManualClock) -> SqliteStore:
    """Return a store with one conversation of each kind; all but one are 40 days old."""
    store = await SqliteStore.open(data, clock=clock)
    for name in (OLD, HELD, KEPT):
        await add(store, clock, name)
    await add(store, clock, OPEN, ended=False)
    await keep_conversation(store, KEPT, clock)
    (data / "workspaces" / OLD / TURN / "files").mkdir(parents=True)
    (data / "workspaces" / OLD / TURN / "files" / "a.md").write_text(SECRET)
    (data / "chat_history").write_text(f"\n# 2026\n+{SECRET} {OLD}\n")
    clock.advance(40 * DAY_S)
    await add(store, clock, NEW)
    return store


def make_context(store: SqliteStore, data: Path, clock: ManualClock) -> RetentionContext:
    erasers = build_side_file_erasers(data)
    return RetentionContext(store=store, workspaces=data / "workspaces", clock=clock, side_file_erasers=erasers)


async def outcomes(context: RetentionContext, days: int = 30, *, dry_run: bool = False) -> dict[str, str]:
    return {result.conversation: result.outcome async for result in apply_retention(context, days, dry_run=dry_run)}


def run(data: Path, body: Callable[[SqliteStore, ManualClock], Coroutine[None, None, None]]) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with await make_store(data, clock) as store:
            await body(store, clock)

    asyncio.run(main())


def test_an_old_conversation_is_deleted_without_a_trace(tmp_path: Path) -> None:
    async def body(store: SqliteStore, clock: ManualClock) -> None:
        context = make_context(store, tmp_path, clock)
        await store.acquire(HELD, "a test")
        assert await outcomes(context, dry_run=True) == {OLD: "due", HELD: "held", KEPT: "kept", OPEN: "open"}
        assert len(await store.conversation_ids()) == 5
        assert await outcomes(context) == {OLD: "deleted", HELD: "held", KEPT: "kept", OPEN: "open"}
        assert await store.conversation_ids() == sorted([HELD, KEPT, NEW, OPEN])
        found = await store.conversations(ConversationQuery(tenant="home", words="conv_old"))
        assert found.conversations == ()
        assert (await store.verify()).findings == ()

    run(tmp_path, body)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if f"{SECRET} {OLD}".encode() in path.read_bytes()] == []
    assert not (tmp_path / "workspaces" / OLD).exists()


def test_the_period_is_counted_from_the_last_entry_by_the_clock(tmp_path: Path) -> None:
    async def body(store: SqliteStore, clock: ManualClock) -> None:
        context = make_context(store, tmp_path, clock)
        assert await outcomes(context, 41) == {}
        info = await store.info(OLD)
        await store.append(OLD, info.tail, [Draft(TURN, timestamp(clock.epoch_us()), UserPrompt(text="again"))])
        assert OLD not in await outcomes(context, dry_run=True)
        clock.advance(31 * DAY_S)
        assert (await outcomes(context, dry_run=True))[OLD] == "due"

    run(tmp_path, body)


def test_a_mark_is_a_record_of_the_owner_and_goes_with_the_conversation(tmp_path: Path) -> None:
    async def body(store: SqliteStore, clock: ManualClock) -> None:
        assert await is_kept(store, KEPT)
        assert await release_conversation(store, KEPT)
        assert not await release_conversation(store, KEPT)
        await keep_conversation(store, OLD, clock)
        assert (await outcomes(make_context(store, tmp_path, clock)))[KEPT] == "deleted"
        await store.records.erase_user("home", "ann")
        assert (await outcomes(make_context(store, tmp_path, clock)))[OLD] == "deleted"
        assert (await store.records.list(RecordQuery(kind=KIND))).records == ()
        with pytest.raises(CodedError):
            await keep_conversation(store, OLD, clock)

    run(tmp_path, body)


def test_an_owner_whose_name_records_refuse_has_no_mark_and_is_deleted(tmp_path: Path) -> None:
    async def body(store: SqliteStore, clock: ManualClock) -> None:
        await add(store, clock, "conv_odd", tenant="x" * 300)
        clock.advance(40 * DAY_S)
        assert not await is_kept(store, ConversationId("conv_odd"))
        assert (await outcomes(make_context(store, tmp_path, clock)))["conv_odd"] == "deleted"

    run(tmp_path, body)


def test_a_run_that_was_cut_off_is_completed_by_the_next(tmp_path: Path) -> None:
    async def body(store: SqliteStore, clock: ManualClock) -> None:
        results = apply_retention(make_context(store, tmp_path, clock), 30)
        assert (await anext(results)).conversation in (HELD, OLD)
        await results.aclose()
        assert len((await store.records.list(RecordQuery(kind="retention"))).records) == 1
        await outcomes(make_context(store, tmp_path, clock))
        assert (await store.records.list(RecordQuery(kind="retention"))).records == ()

    run(tmp_path, body)


def test_an_error_before_the_delete_keeps_the_conversation(tmp_path: Path) -> None:
    async def refuse(_: ConversationInfo) -> None:
        raise CodedError("store_unwritable", "the audit log cannot be written")

    async def body(store: SqliteStore, clock: ManualClock) -> None:
        context = RetentionContext(store=store, workspaces=tmp_path, clock=clock, on_delete=refuse)
        with pytest.raises(CodedError):
            await outcomes(context)
        assert OLD in await store.conversation_ids()
        assert not await store.is_held(HELD)

    run(tmp_path, body)


def test_the_job_runs_once_a_day_and_writes_audit_entries(tmp_path: Path) -> None:
    async def body(store: SqliteStore, clock: ManualClock) -> None:
        job = RetentionJob(store, 30, tmp_path, clock, RandomIds(), build_side_file_erasers(tmp_path))
        assert await job.run_if_due() == {"deleted": 2, "open": 1, "kept": 1}
        clock.advance(20 * 3600)
        assert await job.run_if_due() is None
        clock.advance(5 * 3600)
        assert await job.run_if_due() == {"open": 1, "kept": 1}
        page = await AuditLog(tmp_path / "audit").page("home", "demo", AuditQuery())
        assert [(one.operation, one.conversation_id, one.owner) for one in page.entries] == [
            ("retention", HELD, "ann"),
            ("retention", OLD, "ann"),
        ]

    run(tmp_path, body)


def test_the_job_runs_in_the_background_from_the_start(tmp_path: Path) -> None:
    async def body(store: SqliteStore, clock: ManualClock) -> None:
        job = RetentionJob(store, 30, tmp_path, clock, RandomIds())
        async with run_daily(job, interval_s=0.001), asyncio.timeout(30):
            async for _ in store.follow(OLD):
                pass  # Following ends when the conversation is deleted.
        async with run_daily(None):
            assert NEW in await store.conversation_ids()

    run(tmp_path, body)


def test_an_audit_log_of_any_tenant_stays_in_its_folder(tmp_path: Path) -> None:
    async def body(store: SqliteStore, clock: ManualClock) -> None:
        for number, tenant in enumerate(("../../../evil", "..", "x" * 300, "Été")):
            await add(store, clock, f"conv_{number}", tenant=tenant)
        clock.advance(40 * DAY_S)
        job = RetentionJob(store, 30, tmp_path / "deep" / "data", clock, RandomIds())
        assert (await job.run_if_due() or {}).get("deleted") == 7
        assert {path.name for path in (tmp_path / "deep").iterdir()} == {"data"}
        assert verify_audit_logs(tmp_path / "deep" / "data" / "audit") == (7, [])
        assert len((await AuditLog(tmp_path / "deep/data/audit").page("..", "demo", AuditQuery())).entries) == 1

    run(tmp_path, body)
