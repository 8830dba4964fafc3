"""Findings of a replay for logs that were changed, damaged or written by another version."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.harness.replay import CONVERSATION, LARGE, TURN, make_log, run_replay, store_entries
from tests.harness.turn import run
from timeloom.core.blocks import (
    AnyBlock,
    Cut,
    Hidden,
    ModelAnswered,
    ModelCalled,
    Notice,
    Pruned,
    RangeSummary,
    Unknown,
    Usage,
    UserPrompt,
)
from timeloom.core.blocks.round import CallPurpose
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.paths import RoundTextPath
from timeloom.core.payload import ref_of
from timeloom.core.timeline import Entry
from timeloom.runtime.replay.replay import PAGE, explain_call, find_calls, rebuild_prompt
from timeloom.stores.blob_folder import tenant_folder
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.sqlite import SqliteStore

PATH = RoundTextPath(TURN, "model", 1)


def asked(attempt: int, purpose: CallPurpose = "decision", tail: str = "ANNOUNCE") -> ModelCalled:
    return ModelCalled(
        round=1, model="m", request_sha256="x", attempt=attempt, purpose=purpose, system="Be good.", tail=tail
    )


def said(text: str) -> Notice:
    return Notice(code="tool_call_error", text=text)


def changed(entries: Sequence[Entry], seq: int, block: AnyBlock) -> list[Entry]:
    """The log with another block at that place."""
    return [replace(entry, block=block) if entry.seq == seq else entry for entry in entries]


def with_tail(entries: Sequence[Entry], seq: int, tail: str) -> list[Entry]:
    block = entries[seq - 1].block
    assert isinstance(block, ModelCalled)
    return changed(entries, seq, replace(block, tail=tail))


FOUR = make_log(UserPrompt(text="go"), asked(1), said("a"), asked(2), said("b"), asked(3), said("c"), asked(4))
"""Calls at 3, 5, 7 and 9, each with something new before it."""


def test_a_changed_entry_is_found_between_the_last_call_that_is_the_same_and_the_first_that_differs() -> None:
    async def check() -> None:
        store = await store_entries(changed(FOUR, 6, said("B")))
        found, (finding,) = await run_replay(store, CONVERSATION)
        assert [call.verdict for call in found] == ["same", "same", "differs", "differs"]
        assert (finding.code, finding.seq) == ("replay_differs", 7)
        assert "something in entries 6 to 7 was changed" in finding.message
        assert "1 calls after it differ" in finding.message

    run(check)


def test_a_changed_tail_is_told_from_changed_entries_by_the_next_call() -> None:
    async def check() -> None:
        store = await store_entries(with_tail(FOUR, 5, "another tail"))
        found, (finding,) = await run_replay(store, CONVERSATION)
        assert [call.verdict for call in found] == ["same", "differs", "same", "same"]
        assert "its own system text, tail or hash was changed" in finding.message

    run(check)


def test_a_changed_entry_that_is_forgotten_does_not_spoil_what_follows() -> None:
    async def check() -> None:
        hide = Pruned(cuts=(Cut(4, 4),))
        entries = make_log(UserPrompt(text="go"), asked(1), said("a"), asked(2), hide, asked(3))
        found, (finding,) = await run_replay(await store_entries(changed(entries, 4, said("A"))), CONVERSATION)
        assert [call.verdict for call in found] == ["same", "differs", "same"]
        assert "entries 4 to 5" in finding.message

    run(check)


@pytest.mark.parametrize("purpose", ["title", "compaction"])
def test_a_changed_request_for_something_else_than_a_decision_is_found(purpose: CallPurpose) -> None:
    async def check() -> None:
        entries = make_log(UserPrompt(text="go"), asked(1), asked(1, purpose), asked(2))
        found, (finding,) = await run_replay(await store_entries(with_tail(entries, 4, "another tail")), CONVERSATION)
        assert {call.seq: call.verdict for call in found} == {3: "same", 4: "differs", 5: "same"}
        assert f"({purpose}), does not render to its hash: its own" in finding.message

    run(check)


def test_calls_come_with_how_they_ended_and_what_they_used() -> None:
    async def check() -> None:
        usage = Usage(input_tokens=7, cost_nano_usd=3)
        ended = ModelAnswered(round=1, model="m", stop_reason="end", attempt=2, usage=usage)
        failed = ModelAnswered(round=1, model="m", stop_reason="cut", error="cut", purpose="title")
        other = ModelAnswered(round=9, model="m", stop_reason="end")
        entries = make_log(UserPrompt(text="go"), asked(1), other, asked(2), asked(1, "title"), ended, failed, asked(3))
        found, findings = await run_replay(await store_entries(entries), CONVERSATION)
        assert [(call.seq, call.ended, call.usage) for call in found] == [
            (3, "", Usage()),
            (5, "end", usage),
            (6, "cut", Usage()),
            (9, "", Usage()),
        ]
        assert findings == []
        assert found[0].path == str(PATH)
        for call in found:
            assert (await explain_call(await store_entries(entries), CONVERSATION, call.seq)).call == call

    run(check)


def blob_file(data_dir: Path, text: str) -> Path:
    sha256 = ref_of(text.encode()).sha256
    (file,) = (data_dir / "blobs" / tenant_folder("t")).rglob(sha256)
    return file


def test_a_lost_payload_leaves_calls_unchecked_for_as_long_as_it_is_in_sight(tmp_path: Path) -> None:
    async def check() -> None:
        blocks = (asked(1), UserPrompt(text=LARGE), asked(2), asked(3), Pruned(cuts=(Cut(3, 3),)), asked(4))
        async with await SqliteStore.open(tmp_path) as store:
            await store_entries(make_log(*blocks), store)
            blob_file(tmp_path, LARGE).unlink()
            found, (finding,) = await run_replay(store, CONVERSATION)
            assert [call.verdict for call in found] == ["same", "unchecked", "unchecked", "same"]
            assert (finding.code, finding.seq) == ("blob_missing", 3)
            with pytest.raises(CodedError, match="entry 3"):
                await rebuild_prompt(store, CONVERSATION, 4)
            assert (await rebuild_prompt(store, CONVERSATION, 7)).call.verdict == "same"

    run(check)


def test_a_lost_summary_leaves_calls_unchecked_until_it_is_hidden(tmp_path: Path) -> None:
    async def check() -> None:
        summary = RangeSummary(covered_turn_ids=(), text=LARGE, first_seq=2, last_seq=3)
        hide = Hidden(target=f"su:{TURN}.conv.range.summary.1", replacement="old")
        blocks = (UserPrompt(text="go"), asked(1), summary, asked(2), hide, asked(3))
        async with await SqliteStore.open(tmp_path) as store:
            await store_entries(make_log(*blocks), store)
            blob_file(tmp_path, LARGE).write_bytes(b"something else")
            found, (finding,) = await run_replay(store, CONVERSATION)
            assert [call.verdict for call in found] == ["same", "unchecked", "same"]
            assert finding.code == "blob_damaged"

    run(check)


def test_a_lost_tail_leaves_its_own_call_unchecked_and_no_other(tmp_path: Path) -> None:
    async def check() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            await store_entries(make_log(UserPrompt(text="go"), asked(1), asked(2, tail=LARGE), asked(3)), store)
            found, findings = await run_replay(store, CONVERSATION)
            assert ([call.verdict for call in found], findings) == (["same"] * 3, [])
            blob_file(tmp_path, LARGE).unlink()
            found, (finding,) = await run_replay(store, CONVERSATION)
            assert [call.verdict for call in found] == ["same", "unchecked", "same"]
            assert (finding.code, finding.seq) == ("blob_missing", 4)

    run(check)


def test_a_damaged_entry_ends_the_walk_after_all_that_stand_before_it(tmp_path: Path) -> None:
    async def check() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            await store_entries(FOUR, store)
        with closing(sqlite3.connect(tmp_path / "journal.db")) as journal, journal:
            journal.execute("UPDATE entries SET record = zeroblob(9) WHERE place & 0xffffffff = 6")
        async with await SqliteStore.open(tmp_path) as store:
            found, (finding,) = await run_replay(store, CONVERSATION)
            assert [(call.seq, call.verdict) for call in found] == [(3, "same"), (5, "same")]
            assert (finding.code, finding.seq) == ("entry_damaged", 6)
            assert await find_calls(store, CONVERSATION, PATH) == {1: 3, 2: 5}
            assert (await rebuild_prompt(store, CONVERSATION, 5)).call.verdict == "same"
            assert (await explain_call(store, CONVERSATION, 5)).call == found[1]
            with pytest.raises(CodedError, match="damaged"):
                await explain_call(store, CONVERSATION, 7)
            with pytest.raises(CodedError, match="damaged"):
                await find_calls(store, CONVERSATION, RoundTextPath(TURN, "model", 2))

    run(check)


def test_a_conversation_that_is_not_there_is_a_finding() -> None:
    async def check() -> None:
        found, (finding,) = await run_replay(MemoryStore(), ConversationId("conv_nope"))
        assert (found, finding.code) == ([], "conversation_unknown")

    run(check)


def test_a_call_of_a_form_that_nobody_here_knows_is_a_finding() -> None:
    async def check() -> None:
        call = Unknown(json='{"type": "react.model.call", "purpose": "dream"}', foreign_type="react.model.call")
        found, (finding,) = await run_replay(
            await store_entries(make_log(UserPrompt(text="go"), call, asked(1))), CONVERSATION
        )
        assert (finding.code, finding.seq) == ("store_format_unknown", 3)
        assert [call.verdict for call in found] == ["same"]

    run(check)


def test_a_block_of_a_newer_version_in_sight_explains_a_difference_and_is_named_once() -> None:
    async def check() -> None:
        entries = make_log(
            UserPrompt(text="go"), said("as it was rendered then"), asked(1), asked(2), asked(1, "title")
        )
        newer = Unknown(json='{"type": "react.song"}', foreign_type="react.song")
        found, (finding,) = await run_replay(await store_entries(changed(entries, 3, newer)), CONVERSATION)
        assert {call.seq: call.verdict for call in found} == {4: "unchecked", 5: "unchecked", 6: "same"}
        assert (finding.code, finding.seq) == ("store_format_unknown", 3)
        assert "react.song" in finding.message

    run(check)


def test_a_log_of_several_pages_is_read_to_its_end() -> None:
    async def check() -> None:
        entries = make_log(*(said(f"{n}") if n % 100 else asked(n // 100) for n in range(1, 2 * PAGE + 2)))
        found, findings = await run_replay(await store_entries(entries), CONVERSATION)
        assert ([call.verdict for call in found], findings) == (["same"] * (2 * PAGE // 100), [])

    run(check)


def test_a_rebuilt_prompt_shows_everything_with_its_cache_points() -> None:
    async def check() -> None:
        store = await store_entries(FOUR)
        prompt = await rebuild_prompt(store, CONVERSATION, 5)
        assert prompt.as_text().startswith("Be good.\n\n<cache point>\n\nRECENT INTACT TURNS")
        assert prompt.as_text().endswith("<cache point>\n\nANNOUNCE")
        assert prompt.seqs == (1, 2, 3, 4)
        assert await find_calls(store, CONVERSATION, PATH) == {1: 3, 2: 5, 3: 7, 4: 9}
        assert await find_calls(store, CONVERSATION, PATH, "title") == {}

    run(check)


@pytest.mark.parametrize("seq", [2, 99])
def test_what_is_no_model_call_cannot_be_rebuilt(seq: int) -> None:
    async def check() -> None:
        with pytest.raises(CodedError, match="not a model call"):
            await rebuild_prompt(await store_entries(FOUR), CONVERSATION, seq)
        with pytest.raises(CodedError, match="not a model call"):
            await explain_call(await store_entries(FOUR), CONVERSATION, seq)

    run(check)


def test_a_request_of_another_rendering_is_left_unchecked_and_said_once() -> None:
    entries = make_log(UserPrompt(text="a"), asked(1), said("b"), asked(2), said("c"), asked(3))
    older = [
        replace(entry, block=replace(entry.block, rendering=1, request_sha256="0" * 64))
        if isinstance(entry.block, ModelCalled)
        else entry
        for entry in entries
    ]

    async def check() -> None:
        calls, findings = await run_replay(await store_entries(older), CONVERSATION)
        assert [call.verdict for call in calls] == ["unchecked"] * 3
        assert [(one.code, one.seq) for one in findings] == [("rendering_other", 3)]

    run(check)
