"""Forks: a copy up to the end of a turn keeps sequence numbers, times and bytes, and runs independently."""

from pathlib import Path

import pytest

from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    Completion,
    ConversationStarted,
    ForkPoint,
    Titled,
    ToolCall,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.store import Store
from timeloom.runtime.fork.fork import ForkResult, fork
from timeloom.runtime.session.load_views import load_views
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing.samples import SAMPLE_BLOCKS
from timeloom.wire.record import encode_record

pytestmark = pytest.mark.anyio
SOURCE = ConversationId("conv_1794750199577_v0k0u9lf")
ONE, TWO, OPEN = TurnId("turn_1"), TurnId("turn_2"), TurnId("turn_3")
HEADER = ConversationStarted(tenant="t", project="p", user="u", bundle="b")
TURN_ONE: list[tuple[TurnId, AnyBlock]] = [
    (ONE, TurnStarted(n=1)),
    (ONE, UserPrompt(text="x" * 100_000)),
    (ONE, Attachment(artifact_path="fi:turn_1.user.attachments/a.png", mime="image/png", data=b"\x89PNG")),
    (ONE, Completion(text="one")),
    (ONE, TurnEnded(reason="completed")),
    (NO_TURN, Titled(text="A title")),
]
TURN_TWO: list[tuple[TurnId, AnyBlock]] = [
    (TWO, TurnStarted(n=2)),
    (TWO, UserPrompt(text="two")),
    (TWO, TurnEnded(reason="stopped")),
]
TURN_OPEN: list[tuple[TurnId, AnyBlock]] = [(OPEN, TurnStarted(n=3)), (OPEN, UserPrompt(text="three"))]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def write(store: Store, *blocks: tuple[TurnId, AnyBlock]) -> None:
    drafts = [Draft(turn, "2026-02-09T02:14:32Z", block) for turn, block in ((NO_TURN, HEADER), *blocks)]
    await store.append(SOURCE, 0, drafts)


async def forked(store: Store, folder: Path, turn: str | None = None) -> ForkResult:
    return await fork(store, SOURCE, folder, SystemClock(), RandomIds(), turn=turn)


async def test_all_of_a_conversation_is_copied_byte_for_byte_with_its_places(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "data") as store:
        samples = [(ONE, block) for block in SAMPLE_BLOCKS if not isinstance(block, ConversationStarted | TurnEnded)]
        await write(store, (ONE, TurnStarted(n=1)), *samples, (ONE, TurnEnded(reason="completed")))
        copy = await forked(store, tmp_path)
        before, after = await store.load(SOURCE), await store.load(copy.conversation)
        assert list(map(encode_record, before[1:])) == list(map(encode_record, after[1:]))
        assert [entry.path for entry in before] == [entry.path for entry in after]
        assert (await store.verify()).findings == ()


async def test_a_fork_keeps_the_numbers_of_turns_and_calls(tmp_path: Path) -> None:
    store = await MemoryStore.open()
    calls = [(ONE, ToolCall(tool_id="t.do", tool_call_id=CallId(name))) for name in ("b", "a")]
    await write(store, *TURN_ONE[:-2], *calls, *TURN_ONE[-2:], *TURN_TWO)
    copy = await load_views(store, (await forked(store, tmp_path, "t1")).conversation)
    source = await load_views(store, SOURCE)
    assert (copy.turns.by_number, source.turns.by_number) == ([ONE], [ONE, TWO])
    assert copy.calls.by_number == source.calls.by_number == {ONE: ["b", "a"]}


async def test_the_header_says_where_it_came_from_and_whose_it_is(tmp_path: Path) -> None:
    store = await MemoryStore.open()
    await write(store, *TURN_ONE)
    copy = await forked(store, tmp_path)
    (header,) = await store.load(copy.conversation, limit=1)
    assert header.block == ConversationStarted(
        tenant="t", project="p", user="u", bundle="b", parent=SOURCE, forked_from=ForkPoint(SOURCE, 7)
    )
    info = await store.info(copy.conversation)
    assert (info.title, info.parent) == ("A title", SOURCE)


@pytest.mark.parametrize(("turn", "last", "turns"), [("1", 7, 1), ("turn_1", 7, 1), ("2", 10, 2), (None, 10, 2)])
async def test_a_fork_ends_where_a_turn_has_ended(tmp_path: Path, turn: str | None, last: int, turns: int) -> None:
    store = await MemoryStore.open()
    await write(store, *TURN_ONE, *TURN_TWO, *TURN_OPEN)
    copy = await forked(store, tmp_path, turn)
    assert (copy.forked_from, copy.turns) == (ForkPoint(SOURCE, last), turns)
    views = await load_views(store, copy.conversation)
    assert (views.tail, views.progress.running) == (last, False)


async def test_an_open_turn_and_one_that_is_not_there_are_refused(tmp_path: Path) -> None:
    store = await MemoryStore.open()
    await write(store, *TURN_ONE, *TURN_OPEN)
    for turn, code in (("2", "turn_open"), ("9", "entry_unknown")):
        with pytest.raises(CodedError) as caught:
            await forked(store, tmp_path, turn)
        assert caught.value.code == code
    assert len(await store.conversation_ids()) == 1


async def test_what_has_no_turn_cannot_be_forked(tmp_path: Path) -> None:
    store = await MemoryStore.open()
    await write(store)
    with pytest.raises(CodedError, match="there is no turn yet"):
        await forked(store, tmp_path)


async def test_the_files_of_its_turns_go_along_and_no_others(tmp_path: Path) -> None:
    store = await MemoryStore.open()
    await write(store, *TURN_ONE, *TURN_TWO, *TURN_OPEN)
    for turn in ("turn_1", "turn_3"):
        (tmp_path / SOURCE / turn / "files").mkdir(parents=True)
        (tmp_path / SOURCE / turn / "files" / "a.md").write_text(turn)
    (tmp_path / SOURCE / "turn_1" / "files" / "link").symlink_to("/nowhere")
    copy = await forked(store, tmp_path)
    folder = tmp_path / copy.conversation
    assert sorted(path.name for path in folder.iterdir()) == ["turn_1"]
    assert (folder / "turn_1" / "files" / "a.md").read_text() == "turn_1"
    assert (folder / "turn_1" / "files" / "link").is_symlink()
    (folder / "turn_1" / "files" / "a.md").write_text("changed")
    assert (tmp_path / SOURCE / "turn_1" / "files" / "a.md").read_text() == "turn_1"


async def test_a_fork_of_a_fork_names_the_fork(tmp_path: Path) -> None:
    store = await MemoryStore.open()
    await write(store, *TURN_ONE)
    first = await forked(store, tmp_path)
    second = await fork(store, first.conversation, tmp_path, SystemClock(), RandomIds())
    assert second.forked_from == ForkPoint(first.conversation, 7)
