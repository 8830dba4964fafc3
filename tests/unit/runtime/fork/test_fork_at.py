"""Forks at any entry: open work is not done twice, files are restored, and every request can be replayed."""

import asyncio
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.replay import ReplayHarness, run_replay
from tests.harness.replies import answers, decision_reply
from tests.harness.turn import calls
from timeloom.core.blocks import ResultStatus, ToolCall, TurnEnded
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.store import Store
from timeloom.runtime.fork.fork import ForkResult, fork_at
from timeloom.runtime.replay.check_retrievable import check_retrieval
from timeloom.runtime.session.load_views import load_views
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.sqlite import SqliteStore
from timeloom.wire.record import encode_record

pytestmark = pytest.mark.anyio

PATCHED = calls("react.patch", path="files/a.md", patch="second\n")
STEPS: tuple[str | dict[str, object], ...] = (
    calls("react.write", path="files/a.md", content="first\n"),
    PATCHED,
    calls("t.look", size=30_000),
    answers("One."),
    "nonsense",
    calls("react.plan", mode="new", steps=["a", "b"]),
    {"error": "overloaded"},
    answers("Two.", notes="✓ [1]"),
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def at(store: Store, source: ConversationId, seq: int, workspaces: Path) -> ForkResult:
    return await fork_at(store, source, seq, workspaces, SystemClock(), RandomIds())


async def held(
    folder: Path, *steps: str | dict[str, object], store: Store | None = None
) -> tuple[ReplayHarness, ConversationId]:
    """A conversation of as many turns as the steps have answers, and one for which the script has none."""
    stage = ReplayHarness(folder, *steps, store=store)
    turns = await stage.open()
    while await turns.run("go on") != "provider_error":
        pass
    await turns.titles.stop()
    await turns.session.close()
    return stage, turns.session.conversation


async def call_seq(store: Store, conversation: ConversationId, tool_id: str) -> int:
    """Where the first call of that tool stands."""
    entries = await store.load(conversation)
    return next(one.seq for one in entries if isinstance(one.block, ToolCall) and one.block.tool_id == tool_id)


async def test_wherever_a_conversation_is_forked_the_copy_verifies_and_replays(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "data") as store:
        _, source = await held(tmp_path, *STEPS, store=store)
        before = await store.load(source)
        for seq in range(1, len(before) + 1):
            copy = await at(store, source, seq, tmp_path / "workspaces")
            entries = await store.load(copy.conversation)
            assert list(map(encode_record, entries[1:seq])) == list(map(encode_record, before[1:seq]))
            assert (copy.forked_from.seq, copy.cut) == (seq, len(entries) > seq)
            views = await load_views(store, copy.conversation)
            assert (views.progress.running, views.calls.open) == (False, {})
            made, wrong = await run_replay(store, copy.conversation)
            assert (wrong, {call.verdict for call in made} - {"same"}) == ([], set())
            assert (await check_retrieval(store, copy.conversation)).lost == ()
        assert (await store.verify()).findings == ()
        assert await store.load(source) == before


async def test_wherever_it_is_forked_the_next_turn_runs_and_no_old_call_does(tmp_path: Path) -> None:
    stage, source = await held(tmp_path, *STEPS)
    for seq in range(2, 30):
        copy = await at(stage.store, source, seq, tmp_path / "workspaces")
        made = await _calls(stage.store, copy.conversation)
        turns = await ReplayHarness(tmp_path, {"reply": answers("Again."), "repeat": True}, store=stage.store).open(
            copy.conversation
        )
        assert await turns.run("and now?") == "completed"
        await turns.session.close()
        assert await _calls(stage.store, copy.conversation) == made


async def _calls(store: Store, conversation: ConversationId) -> list[str]:
    entries = await store.load(conversation)
    return [entry.block.tool_call_id for entry in entries if isinstance(entry.block, ToolCall)]


async def test_a_call_under_way_is_closed_and_the_source_goes_on(tmp_path: Path) -> None:
    stage, source = await held(tmp_path, *STEPS)
    entries = await stage.store.load(source)
    call = next(entry for entry in entries if isinstance(entry.block, ToolCall))
    copy = await at(stage.store, source, call.seq, tmp_path / "workspaces")
    *_, receipt, end = [entry.block for entry in await stage.store.load(copy.conversation)]
    assert isinstance(receipt, ResultStatus)
    assert receipt.error
    assert receipt.error.code == "call_cut"
    assert isinstance(end, TurnEnded)
    assert len(await stage.store.load(source)) == len(entries)


async def test_files_of_a_turn_that_is_cut_are_as_they_were_then(tmp_path: Path) -> None:
    stage, source = await held(tmp_path, *STEPS)
    workspaces, turn = tmp_path / "workspaces", (await stage.store.load(source))[1].turn_id
    folder = workspaces / source / turn / "files"
    (folder / "later.txt").write_text("a program wrote this after the cut")
    (folder / "early.txt").write_text("a program wrote this before")
    os.utime(folder / "early.txt", (1, 1))
    copy = await at(stage.store, source, await call_seq(stage.store, source, "react.patch"), workspaces)
    copied = workspaces / copy.conversation / turn / "files"
    assert {path.name: path.read_text() for path in copied.iterdir()} == {
        "a.md": "first\n",
        "early.txt": "a program wrote this before",
    }
    assert (folder / "a.md").read_text() == "second\n"


async def test_files_that_nobody_changed_since_are_copied_from_disk(tmp_path: Path) -> None:
    stage, source = await held(tmp_path, *STEPS)
    workspaces, turn = tmp_path / "workspaces", (await stage.store.load(source))[1].turn_id
    file = workspaces / source / turn / "files" / "a.md"
    os.utime(file, (1, 1))
    file.with_name("link").symlink_to("nowhere")
    os.utime(file.with_name("link"), (1, 1), follow_symlinks=False)
    os.mkfifo(file.with_name("pipe"))
    copy = await at(stage.store, source, await call_seq(stage.store, source, "t.look"), workspaces)
    copied = workspaces / copy.conversation / turn / "files"
    assert sorted(path.name for path in copied.iterdir()) == ["a.md", "link"]
    assert ((copied / "a.md").read_text(), (copied / "a.md").stat().st_nlink) == ("second\n", 1)


@pytest.mark.parametrize("seq", [0, 1000])
async def test_an_entry_that_is_not_there_is_refused(tmp_path: Path, seq: int) -> None:
    stage, source = await held(tmp_path, answers("One."))
    with pytest.raises(CodedError, match="from 1 to"):
        await at(stage.store, source, seq, tmp_path / "workspaces")


async def test_a_disk_that_refuses_leaves_nothing_behind(tmp_path: Path) -> None:
    stage, source = await held(tmp_path, answers("One."))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CodedError) as caught:
        await at(stage.store, source, 3, tmp_path / "file" / "workspaces")
    assert caught.value.code == "workspace_failed"
    assert len(await stage.store.conversation_ids()) == 1


replies = st.lists(
    st.sampled_from(
        (
            calls("t.look"),
            calls("t.look", size=20_000),
            calls("react.write", path="files/a.md", content="text"),
            calls("react.plan", mode="new", steps=["a"]),
            calls("no.tool"),
            decision_reply({"action": "call_tool"}),
            answers("An answer."),
            answers("Another.", notes="✓ [1]"),
        )
    ),
    min_size=1,
    max_size=7,
)


@settings(max_examples=25)
@given(replies, st.data())
def test_a_fork_of_any_conversation_at_any_entry_replays(steps: list[str], data: st.DataObject) -> None:
    async def check(folder: Path) -> None:
        stage, source = await held(folder, *steps, store=MemoryStore())
        tail = len(await stage.store.load(source))
        copy = await at(stage.store, source, data.draw(st.integers(1, tail)), folder / "workspaces")
        again = await at(stage.store, copy.conversation, data.draw(st.integers(1, copy.forked_from.seq)), folder / "w")
        for conversation in (copy.conversation, again.conversation):
            made, wrong = await run_replay(stage.store, conversation)
            assert (wrong, {call.verdict for call in made} - {"same"}) == ([], set())
            assert (await check_retrieval(stage.store, conversation)).lost == ()
            assert not (await load_views(stage.store, conversation)).progress.running

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder)))
