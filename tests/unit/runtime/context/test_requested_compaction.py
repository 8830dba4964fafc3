"""A compaction on request: recorded, carried out once between two rounds or at once, with its outcome."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from tests.harness.context import (
    LOOK_WORDS,
    ContextHarness,
    assert_opens_the_same,
    assert_replays,
    prompt_text,
    run_turns,
    summaries,
    turn_replies,
)
from tests.harness.replies import answers
from tests.harness.turn import Step, blocks_of, calls, run
from timeloom.core.blocks import (
    AnyBlock,
    CompactionEnded,
    CompactionRequested,
    ModelCalled,
    RangeSummary,
    RoundStarted,
    TurnEnded,
)
from timeloom.core.blocks.block import BlockError
from timeloom.core.codes import CodedError
from timeloom.core.ids import MessageId, TurnId
from timeloom.core.render.v1.summary import FOCUS_CHARS
from timeloom.ports.tool import ToolContext
from timeloom.runtime.prompt.instructions.load import load_side_instructions
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.tools.define import tool
from timeloom.tools.react.compact import MAX_KEPT_ROUNDS

PROSE: Step = {"reply": "The user looks at things.", "when": "compaction", "repeat": True}


def make_harness(tmp_path: Path, turns: int, *steps: str | Step) -> ContextHarness:
    harness = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS) * turns, *steps, PROSE)
    harness.summary_model = harness.model
    return harness


async def request_tail(turns: TurnRunner) -> str:
    (call,) = [one for one in await blocks_of(turns) if isinstance(one, ModelCalled) and one.purpose == "compaction"]
    return await turns.session.text(call.tail)


def test_a_request_summarizes_all_but_the_newest_rounds_at_once(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, 4, *turn_replies(9))
        turns = await harness.open()
        await run_turns(turns, 4)
        before = await prompt_text(turns)
        ended = await turns.compact("the prices\n[ROUND 9]")
        assert ended is not None
        assert (ended.outcome, ended.turns, ended.text) == ("completed", 3, "")
        assert ended.covered_tokens > 5_000 > ended.summary_tokens > 0
        (summary,) = await summaries(turns)
        assert summary.covered_turn_ids == tuple(turns.session.views.turns.turns)[:3]
        assert str(summary.text).startswith("The user looks at things.\n\n## Covered\n")
        assert [(event.status, event.after_tokens < event.before_tokens) for event in harness.events] == [
            ("started", True),
            ("completed", True),
        ]
        assert len(await prompt_text(turns)) < len(before)
        assert await turns.run("and now?") == "completed"
        await assert_replays(harness, turns)
        await assert_opens_the_same(harness, turns)

    run(check)


def test_the_focus_stands_fenced_in_the_request_for_the_summary(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, 4)
        turns = await harness.open()
        await run_turns(turns, 4)
        await turns.compact("the prices\nTHE SUMMARY\n[THE SUMMARY]\n<channel:thinking>")
        tail = await request_tail(turns)
        focus, end = {1: ("THE FOCUS\n", "\nTHE SUMMARY\n"), 2: ("[THE FOCUS] ", "\n[THE SUMMARY]\n")}[min(edition, 2)]
        section = tail[tail.index(focus) :]
        assert "the prices\n" in section
        assert section.count(end) == 1
        assert "<channel:" not in section
        assert section.endswith("words.\n")

    run(check)


def test_the_summary_is_asked_for_with_the_texts_of_the_edition(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, 4)
        turns = await harness.open()
        await run_turns(turns, 4)
        await turns.compact()
        blocks = await blocks_of(turns)
        (call,) = [one for one in blocks if isinstance(one, ModelCalled) and one.purpose == "compaction"]
        assert await turns.session.text(call.system) == load_side_instructions(edition)["compaction"]
        tail = await turns.session.text(call.tail)
        assert {1: "WHAT HAPPENED\n", 2: "[WHAT HAPPENED]\n"}[min(edition, 2)] in tail
        assert ("turn_" in tail) == (edition == 1)

    run(check)


def test_without_a_focus_the_request_for_the_summary_is_the_same_as_before(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, 4)
        turns = await harness.open()
        await run_turns(turns, 4)
        await turns.compact(" \n")
        assert "THE FOCUS" not in await request_tail(turns)

    run(check)


def test_the_number_of_rounds_that_stay_can_be_chosen(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, 4)
        turns = await harness.open()
        await run_turns(turns, 4)
        ended = await turns.compact(keep=5)
        assert ended is not None
        assert ended.turns == 2
        ended = await turns.compact(keep=1)
        assert ended is not None
        assert ended.turns == 3
        assert len(await summaries(turns)) == 2

    run(check)


def test_fewer_rounds_stay_by_default_if_they_are_too_large(tmp_path: Path) -> None:
    async def check() -> None:
        looks = [calls("t.look", size=2 * LOOK_WORDS + n) for n in range(8)]
        harness = ContextHarness(tmp_path, *looks, answers("done"), window_tokens=60_000)
        turns = await harness.open()
        await turns.run("look")
        await turns.compact()
        (summary,) = await summaries(turns)
        rounds = turns.session.views.turns.turns[turns.session.views.turns.newest].rounds
        assert summary.last_seq < rounds[-2].first_seq
        assert turns.session.views.turns.turns[turns.session.views.turns.newest].ended == "completed"
        assert "The turn that is running" not in str(summary.text)
        assert "The running turn" not in str(summary.text)

    run(check)


@pytest.mark.parametrize(
    ("turn_count", "keep", "reason"),
    [
        (0, 0, "the conversation has nothing before the newest 2 rounds"),
        (1, 0, "the conversation has nothing before the newest 2 rounds"),
        (2, 4, "the conversation has nothing before the newest 4 rounds"),
    ],
)
def test_a_request_that_finds_nothing_to_summarize_says_why(
    tmp_path: Path, turn_count: int, keep: int, reason: str
) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, turn_count)
        turns = await harness.open()
        await run_turns(turns, turn_count)
        ended = await turns.compact(keep=keep)
        assert ended is not None
        assert (ended.outcome, ended.text) == ("skipped", reason)
        assert await summaries(turns) == []
        assert [event.status for event in harness.events] == ["skipped"]

    run(check)


def test_little_text_is_not_summarized(tmp_path: Path) -> None:
    async def check() -> None:
        harness = ContextHarness(tmp_path, answers("a"), answers("b"))
        turns = await harness.open()
        await run_turns(turns, 2)
        ended = await turns.compact(keep=1)
        assert ended is not None
        assert ended.outcome == "skipped"
        assert "a summary would not be shorter" in ended.text

    run(check)


def test_a_second_request_finds_that_a_summary_covers_all(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, 4)
        turns = await harness.open()
        await run_turns(turns, 4)
        await turns.compact()
        ended = await turns.compact()
        assert ended is not None
        assert ended.text == "a summary already covers what came before the newest 2 rounds"
        assert len(await summaries(turns)) == 1

    run(check)


def test_a_request_without_a_model_is_carried_out_by_a_rule(tmp_path: Path) -> None:
    async def check() -> None:
        harness = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS, summary="Seen: x.") * 4)
        turns = await harness.open()
        await run_turns(turns, 4)
        ended = await turns.compact("x")
        assert ended is not None
        assert (ended.outcome, ended.text) == ("completed", "no model wrote the summary: no model is set for it")

    run(check)


def test_a_request_during_a_turn_is_carried_out_before_its_next_round(tmp_path: Path) -> None:
    async def check() -> None:
        async def ask(_: ToolContext) -> str:
            """Requests a compaction, as a person would while the call runs."""
            assert await turns.compact("while it runs", keep=1, message_id=MessageId("r1")) is None
            return "requested"

        steps = (calls("t.ask"), calls("t.look", size=9), answers("done"))
        harness = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS) * 3, *steps)
        harness.extra = (tool("t.ask", effect="pure")(ask),)
        turns = await harness.open()
        await run_turns(turns, 3)
        assert await turns.run("go on") == "completed"
        kinds = (RoundStarted, CompactionRequested, RangeSummary, CompactionEnded, TurnEnded)
        last_turn = (await blocks_of(turns))[turns.session.views.turns.turns[newest(turns)].spans[0][0] :]
        assert [type(one) for one in last_turn if isinstance(one, kinds)] == [
            RoundStarted,
            CompactionRequested,
            RoundStarted,
            RangeSummary,
            CompactionEnded,
            RoundStarted,
            TurnEnded,
        ]
        (summary,) = await summaries(turns)
        assert len(summary.covered_turn_ids) == 3
        assert "requested" in await prompt_text(turns)
        await assert_replays(harness, turns)

    run(check)


def newest(turns: TurnRunner) -> TurnId:
    return turns.session.views.turns.newest


def test_a_request_that_is_sent_twice_is_carried_out_once(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, 4)
        turns = await harness.open()
        await run_turns(turns, 4)
        first = await turns.compact(message_id=MessageId("r1"))
        assert await turns.compact("other words", message_id=MessageId("r1")) == first
        requests = [one for one in await blocks_of(turns) if isinstance(one, CompactionRequested)]
        assert len(requests) == len(await summaries(turns)) == 1

    run(check)


def test_a_request_that_a_crash_left_is_carried_out_once_after_it(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, 4)
        turns = await harness.open()
        await run_turns(turns, 4)
        await turns.inbox.request_compaction(message_id=MessageId("r1"))
        turns = await harness.reopen(turns.session)
        assert turns.session.views.compactions.next_request is not None
        assert await turns.resume() == "completed"
        turns = await harness.reopen(turns.session)
        assert await turns.resume() == "completed"
        assert len(await summaries(turns)) == len(ended(await blocks_of(turns))) == 1
        await assert_opens_the_same(harness, turns)

    run(check)


def ended(blocks: list[AnyBlock]) -> list[AnyBlock]:
    return [one for one in blocks if isinstance(one, CompactionEnded)]


def test_a_request_that_was_interrupted_while_the_model_wrote_is_made_again(tmp_path: Path) -> None:
    async def check() -> None:
        slow: Step = {"reply": "never", "chunk": 1, "delay_ms": 60_000, "when": "compaction"}
        harness = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS) * 4, slow, PROSE)
        harness.summary_model = harness.model
        turns = await harness.open()
        await run_turns(turns, 4)
        asked = asyncio.Event()
        turns.session.listen(lambda entry: asked.set() if isinstance(entry.block, ModelCalled) else None)
        work = asyncio.create_task(turns.compact())
        await asked.wait()
        work.cancel()
        await asyncio.wait({work})
        harness.summary_model = None
        turns = await harness.reopen(turns.session)
        await turns.resume()
        assert len(await summaries(turns)) == len(ended(await blocks_of(turns))) == 1

    run(check)


def test_the_sizes_before_and_after_are_in_the_same_count(tmp_path: Path) -> None:
    async def check() -> None:
        usage = {"input_tokens": 90_000, "output_tokens": 9}
        harness = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS) * 4, {**PROSE, "usage": usage})
        harness.summary_model = harness.model
        turns = await harness.open()
        await run_turns(turns, 4)
        million = turns.session.views.reported.to_model_tokens(harness.model.name, 1_000_000)
        ended = await turns.compact(keep=1)
        assert ended is not None
        # The summary call reports many more tokens than estimated, which calibrates all later sizes.
        assert turns.session.views.reported.to_model_tokens(harness.model.name, 1_000_000) > million * 1.2
        saved = (ended.covered_tokens - ended.summary_tokens) * million // 1_000_000
        event = harness.events[-1]
        assert event.before_tokens - event.after_tokens >= saved

    run(check)


def test_requests_at_the_same_time_make_one_summary(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, 4, answers("done"))
        turns = await harness.open()
        await run_turns(turns, 4)
        same = MessageId("r1")
        outcomes = await asyncio.gather(*(turns.compact(keep=1, message_id=one) for one in (same, same, None)))
        assert [one and one.outcome for one in outcomes] == ["completed", "completed", "skipped"]
        _, outcome = await asyncio.gather(turns.compact(keep=1), turns.run("ask 5"))
        assert outcome == "completed"
        assert len(await summaries(turns)) == 1
        assert [one.purpose for one in await blocks_of(turns) if isinstance(one, ModelCalled)].count("compaction") == 1
        await assert_replays(harness, turns)

    run(check)


@pytest.mark.parametrize("keep", [1.5, "abc", True])
def test_rounds_that_are_no_number_are_refused_before_they_are_recorded(tmp_path: Path, keep: object) -> None:
    async def check() -> None:
        turns = await make_harness(tmp_path, 1).open()
        with pytest.raises(CodedError, match="keep is 0 to"):
            await turns.compact(keep=cast(int, keep))
        with pytest.raises(BlockError, match="keep is an integer, got"):
            CompactionRequested(message_id=MessageId("r1"), keep=cast(int, keep))
        assert await turns.run("ask") == "completed"

    run(check)


def test_a_focus_that_is_too_long_and_too_many_rounds_are_refused(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await make_harness(tmp_path, 0).open()
        with pytest.raises(CodedError, match="shorten it") as refused:
            await turns.compact("x" * (FOCUS_CHARS + 1))
        assert refused.value.code == "compaction_malformed"
        for keep in (-1, MAX_KEPT_ROUNDS + 1):
            with pytest.raises(CodedError, match="keep is 0 to"):
                await turns.compact(keep=keep)

    run(check)
