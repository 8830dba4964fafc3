"""Replay rebuilds the request of each model call of any conversation as it was sent."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.harness.replay import (
    CONVERSATION,
    LARGE,
    RecordingModel,
    ReplayHarness,
    run_replay,
    to_drafts,
    with_request_hashes,
)
from tests.harness.replies import answers, decision_reply
from tests.harness.turn import Step, calls, run
from timeloom.core.blocks import (
    Attachment,
    Followup,
    Hidden,
    ModelCalled,
    RoundStarted,
)
from timeloom.core.blocks.extract_payloads import restore_payloads
from timeloom.core.payload import Data
from timeloom.core.timeline import Entry
from timeloom.ports.model import DataSegment, ModelRequest, TextSegment
from timeloom.ports.store import Store
from timeloom.runtime.replay.replay import ReplayedCall, explain_call, rebuild_prompt
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnOutcome, TurnRunner
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing.conversations import conversations
from timeloom.testing.strategies import timelines

PNG = b"\x89PNG" + bytes(range(200))


async def check_all_same(session: Session, store: Store) -> list[ReplayedCall]:
    """Every call of the log is replayed, each is the same, and nothing is wrong."""
    found, findings = await run_replay(store, session.conversation)
    entries = await store.load(session.conversation)
    assert sorted(call.seq for call in found) == [e.seq for e in entries if isinstance(e.block, ModelCalled)]
    assert {call.verdict for call in found} == {"same"}
    assert findings == []
    return found


PICTURE = Attachment(artifact_path="fi:turn_1.user.attachments/a.png", mime="image/png", data=PNG)
CONVERSATIONS: dict[str, list[str | Step]] = {
    "tools and a plan": [
        calls("react.plan", mode="new", steps=["look", "answer"]),
        calls("react.write", path="files/a.md", content="# A\n\nline\n"),
        calls("react.patch", path="files/a.md", patch="@@\n-line\n+a line\n"),
        calls("react.read", paths=["fi:nowhere", "so:sources_pool[1]"]),
        answers("done"),
    ],
    "a prompt that is too long": [
        calls("t.look", size=50),
        calls("t.look"),
        {"error": "context_too_long"},
        calls("t.look", size=9_000),
        {"error": "context_too_long"},
        answers("ok"),
    ],
    "failures": [{"error": "overloaded"}, {"error": "cut", "reply": "<channel:thinking>half"}, answers("ok")],
    "malformed replies": [
        "nothing",
        "<channel:odd>x</channel:odd>" + decision_reply({"action": "dance"}),
        answers("ok"),
    ],
    "no answer at all": ["nothing"] * 3,
    "a turn that is given up": [decision_reply({"action": "exit", "notes": "cannot"})],
    "large results": [calls("t.look", size=20_000), calls("t.look", size=1_000), answers(LARGE)],
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_every_call_of_a_conversation_re_renders_to_its_hash(tmp_path: Path, name: str) -> None:
    async def check() -> None:
        steps = CONVERSATIONS[name]
        stage = ReplayHarness(tmp_path, *steps, *steps, answers("and more"))
        turns = await stage.open()
        await turns.run(f"go {LARGE}")
        await turns.run("again", (PICTURE,))
        await turns.session.close()
        again = await stage.open(turns.session.conversation)
        await again.run("once more")
        found = await check_all_same(again.session, stage.store)
        assert len(found) == len(stage.model.requests)
        for call, request in zip(sorted(found, key=lambda one: one.seq), stage.model.requests, strict=True):
            await check_sent(stage.store, call, request)

    run(check)


async def check_sent(store: Store, call: ReplayedCall, request: ModelRequest) -> None:
    """Assert that the rebuilt prompt equals the sent one, to the byte and to the cache point."""
    prompt = await rebuild_prompt(store, call.conversation, call.seq)
    assert (prompt.system, prompt.call.verdict) == (request.system, "same")
    assert await explain_call(store, call.conversation, call.seq) == replace(prompt, call=call)
    *segments, tail = request.segments
    assert tail == TextSegment(prompt.tail)
    assert len(segments) == len(prompt.segments)
    for sent, made in zip(segments, prompt.segments, strict=True):
        assert sent.cache_point == made.cache_point
        if isinstance(sent, DataSegment):
            assert (sent.mime, sent.data) == (made.mime, await in_place(store, made.data or b""))
        else:
            assert sent.text == made.text


async def in_place(store: Store, data: Data) -> bytes:
    return data if isinstance(data, bytes) else await store.read_blob("t", data)


def test_several_actions_of_one_reply_re_render(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ReplayHarness(tmp_path, calls("t.look") + calls("t.look"), answers("ok"), fanout=True)
        turns = await stage.open()
        assert await turns.run("go") == "completed"
        assert len(await check_all_same(turns.session, stage.store)) == 2

    run(check)


def test_the_request_for_a_title_re_renders_without_the_conversation(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ReplayHarness(tmp_path, answers("ok"), {"when": "title", "reply": "Ferries"}, titles=True)
        turns = await stage.open()
        await turns.run("which ferry?")
        await turns.titles.finish()
        found = await check_all_same(turns.session, stage.store)
        assert [call.purpose for call in found] == ["decision", "title"]
        prompt = await rebuild_prompt(stage.store, turns.session.conversation, found[1].seq)
        assert (prompt.segments, prompt.seqs) == ((), ())
        assert "<cache point>" not in prompt.as_text()
        assert "which ferry?" in prompt.as_text()

    run(check)


def test_what_the_agent_hid_is_hidden_again(tmp_path: Path) -> None:
    async def check() -> None:
        write = calls("react.write", path="files/a.md", content="bulk " * 50)
        stage = ReplayHarness(
            tmp_path, write, calls("react.hide", path="files/a.md", replacement="seen"), answers("ok")
        )
        turns = await stage.open()
        await turns.run("go")
        entries = await stage.store.load(turns.session.conversation)
        assert any(isinstance(entry.block, Hidden) for entry in entries)
        found = await check_all_same(turns.session, stage.store)
        prompt = await rebuild_prompt(stage.store, turns.session.conversation, found[-1].seq)
        assert "HIDDEN — seen" in prompt.as_text()

    run(check)


def test_messages_that_come_at_any_moment_do_not_make_a_prompt_that_nobody_can_rebuild(tmp_path: Path) -> None:
    async def check() -> None:
        async with await SqliteStore.open(tmp_path / "data") as store:
            slowly: Step = {"reply": answers("ok"), "chunk": 40, "delay_ms": 1, "repeat": 40}
            stage = ReplayHarness(tmp_path, slowly, store=store)
            turns = await stage.open()
            tasks: list[asyncio.Task[object]] = []

            def listen(entry: Entry) -> None:
                # While the request is made, after it was recorded, and while the answer comes.
                if isinstance(entry.block, RoundStarted | ModelCalled) and len(tasks) < 8:
                    tasks.append(asyncio.create_task(turns.inbox.follow_up(f"also {len(tasks)} {LARGE}")))

            turns.session.listen(listen)
            await turns.run(LARGE)
            await asyncio.gather(*tasks)
            assert any(isinstance(e.block, Followup) for e in await store.load(turns.session.conversation))
            await check_all_same(turns.session, store)

    run(check)


SLOW: Step = {"reply": answers("never"), "chunk": 1, "delay_ms": 200}


async def run_until_asked(turns: TurnRunner, times: int) -> asyncio.Task[TurnOutcome]:
    """The turn on its way, once the model was asked that often."""
    asked = asyncio.Event()
    heard: list[Entry] = []

    def listen(entry: Entry) -> None:
        if isinstance(entry.block, ModelCalled):
            heard.append(entry)
            if len(heard) == times:
                asked.set()

    turns.session.listen(listen)
    running = asyncio.create_task(turns.run("go"))
    await asked.wait()
    return running


def test_a_request_that_a_steer_cut_short_re_renders(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ReplayHarness(tmp_path, calls("t.look"), SLOW, answers("the other way"))
        turns = await stage.open()
        running = await run_until_asked(turns, 2)
        await turns.inbox.steer("turn around")
        assert await running == "completed"
        found = await check_all_same(turns.session, stage.store)
        assert [call.ended for call in found] == ["end", "steered", "end"]

    run(check)


def test_a_turn_that_another_process_goes_on_with_re_renders(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ReplayHarness(tmp_path, calls("t.look"), SLOW, answers("later"))
        turns = await stage.open()
        running = await run_until_asked(turns, 2)
        running.cancel()
        await asyncio.wait({running})
        await turns.session.close()
        stage.model = RecordingModel(calls("t.look"), answers("later"))
        again = await stage.open(turns.session.conversation)
        assert await again.resume() == "completed"
        found = await check_all_same(again.session, stage.store)
        assert [(call.round, call.attempt, call.ended) for call in found] == [(1, 1, "end"), (2, 1, ""), (2, 2, "end")]

    run(check)


@given(conversations(), st.data())
def test_a_prompt_opened_at_any_call_has_the_hash_that_following_the_log_gives(
    entries: list[Entry], data: st.DataObject
) -> None:
    purposes = st.sampled_from(("decision", "decision", "decision", "title", "compaction"))
    varied = [
        replace(
            entry,
            block=replace(entry.block, system="s", tail=data.draw(st.text(max_size=5)), purpose=data.draw(purposes)),
        )
        if isinstance(entry.block, ModelCalled)
        else entry
        for entry in entries
    ]

    async def check() -> None:
        store = MemoryStore()
        await store.append(CONVERSATION, 0, to_drafts(with_request_hashes(varied)))
        found, findings = await run_replay(store, CONVERSATION)
        assert {call.verdict for call in found} <= {"same"}
        assert len(found) == sum(isinstance(entry.block, ModelCalled) for entry in entries)
        assert findings == []

    run(check)


@given(conversations())
def test_a_call_is_explained_from_a_place_near_it_as_the_whole_log_explains_it(entries: list[Entry]) -> None:
    async def check() -> None:
        before = MemoryStore()
        await before.append(CONVERSATION, 0, to_drafts(with_request_hashes(entries)))
        forecasts = {
            call.seq: call.cache.expected for call in (await run_replay(before, CONVERSATION))[0] if call.cache
        }
        recorded = [
            replace(entry, block=replace(entry.block, cache=forecasts[entry.seq]))
            if isinstance(entry.block, ModelCalled) and entry.seq in forecasts
            else entry
            for entry in with_request_hashes(entries)
        ]
        store = MemoryStore()
        await store.append(CONVERSATION, 0, to_drafts(recorded))
        for call in (await run_replay(store, CONVERSATION))[0]:
            prompt = await rebuild_prompt(store, CONVERSATION, call.seq)
            assert await explain_call(store, CONVERSATION, call.seq) == replace(prompt, call=call)

    run(check)


@given(timelines())
def test_any_log_at_all_is_walked_to_its_end(entries: Sequence[Entry]) -> None:
    in_place = [replace(entry, block=restore_payloads(entry.block, lambda _: b"{}")) for entry in entries]

    async def check() -> None:
        store = MemoryStore()
        await store.append(CONVERSATION, 0, to_drafts(in_place))
        found, _ = await run_replay(store, CONVERSATION)
        assert len(found) == sum(isinstance(entry.block, ModelCalled) for entry in entries)
        for call in found:
            assert (await rebuild_prompt(store, CONVERSATION, call.seq)).call.rebuilt_sha256 == call.rebuilt_sha256

    run(check)
