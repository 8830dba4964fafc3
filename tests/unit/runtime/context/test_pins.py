"""Pinned blocks survive pruning and compaction, up to a tenth of the window."""

from pathlib import Path

import pytest

from tests.harness.context import (
    LOOK_WORDS,
    ContextHarness,
    assert_opens_the_same,
    assert_replays,
    make_windowed_model,
    prompt_text,
    prunes,
    run_turns,
    summaries,
    turn_replies,
)
from tests.harness.replies import answers
from tests.harness.turn import blocks_of, calls, run
from timeloom.core.blocks import Pinned
from timeloom.core.codes import CodedError
from timeloom.core.paths import PathError
from timeloom.runtime.context.pins import LAPSED
from timeloom.runtime.turn.loop import TurnRunner

SECRET = "the code is 7141"


def first_prompt(turns: TurnRunner) -> str:
    return f"ar:{next(iter(turns.session.views.turns.turns))}.user.prompt"


def shown_prompt(path: str, edition: int) -> str:
    head = {1: f"[USER MESSAGE]\n[path: {path}]", 2: "[USER]", 3: "[USER t1]"}[edition]
    return f"{head}\n{SECRET}\n"


async def run_first(turns: TurnRunner) -> str:
    assert await turns.run(SECRET) == "completed"
    return first_prompt(turns)


def test_a_pinned_message_survives_many_compactions_word_for_word(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        harness = ContextHarness(tmp_path, answers("noted"), *turn_replies(LOOK_WORDS) * 20, window_tokens=24_000)
        turns = await harness.open()
        path = await run_first(turns)
        await turns.context_fitter.pins.pin(path)
        await run_turns(turns, 20)
        assert len(await summaries(turns)) > 2
        text = await prompt_text(turns)
        assert text.count(f"[PINNED] kept on request\n{shown_prompt(path, edition)}") == 1
        await assert_replays(harness, turns)
        await assert_opens_the_same(harness, turns)

    run(check)


def test_a_pinned_result_survives_pruning(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        harness = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS) * 9)
        turns = await harness.open()
        await run_turns(turns, 1)
        (result,) = [path for path in turns.session.views.visible.at_path if path.endswith(".result")]
        pin = await turns.context_fitter.pins.pin(result)
        assert isinstance(pin.block, Pinned)
        assert pin.block.tokens > 1_000
        harness.clock.advance(3_600)
        for n in range(8):
            harness.clock.advance(3_600)
            assert await turns.run(f"ask {n}") == "completed"
        assert await prunes(turns)
        text = await prompt_text(turns)
        head, _, tail = text.partition("[PINNED] kept on request\n")
        assert tail.startswith({1: f"[TOOL RESULT {result.split('.')[1]}]", 2: "[t1.1]\n"}[min(edition, 2)])
        assert tail.count("x x x x x x x x") > 0
        assert {1: "[PRUNED TURN 1]", 2: "[PRUNED t1]"}[min(edition, 2)] in head
        await assert_replays(harness, turns)
        await assert_opens_the_same(harness, turns)

    run(check)


def test_a_block_that_is_no_longer_pinned_is_summarized_like_others(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        harness = ContextHarness(tmp_path, answers("noted"), *turn_replies(LOOK_WORDS) * 6)
        turns = await harness.open()
        path, pins = await run_first(turns), turns.context_fitter.pins
        await pins.pin(path)
        await run_turns(turns, 3)
        await turns.compact()
        assert shown_prompt(path, edition) in await prompt_text(turns)
        await pins.unpin(path)
        await run_turns(turns, 3)
        await turns.compact()
        assert shown_prompt(path, edition) not in await prompt_text(turns)
        await assert_opens_the_same(harness, turns)

    run(check)


def test_pinning_twice_is_one_pin_and_unpinning_twice_is_refused(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await ContextHarness(tmp_path, answers("noted")).open()
        path, pins = await run_first(turns), turns.context_fitter.pins
        first = await pins.pin(path)
        assert await pins.pin(path) == first
        await pins.unpin(path)
        with pytest.raises(CodedError) as refused:
            await pins.unpin(path)
        assert refused.value.code == "pin_unknown"
        again = await pins.pin(path)
        assert again.seq > first.seq
        assert len([one for one in await blocks_of(turns) if isinstance(one, Pinned)]) == 3

    run(check)


def test_only_what_is_in_the_prompt_can_be_pinned(tmp_path: Path) -> None:
    async def check() -> None:
        harness = ContextHarness(tmp_path, answers("noted"), *turn_replies(LOOK_WORDS) * 3)
        turns = await harness.open()
        path, pins = await run_first(turns), turns.context_fitter.pins
        await run_turns(turns, 3)
        await turns.compact()
        turn = path.removeprefix("ar:").removesuffix(".user.prompt")
        for gone in (path, "ar:turn_9.user.prompt", f"ar:{turn}.react.model.1", "su:turn_1.conv.range.summary"):
            with pytest.raises(CodedError) as refused:
                await pins.pin(gone)
            assert refused.value.code == "pin_not_visible"
        with pytest.raises(PathError):
            await pins.pin("../etc/passwd")

    run(check)


def test_a_pin_beyond_a_tenth_of_the_window_is_refused(tmp_path: Path) -> None:
    async def check() -> None:
        harness = ContextHarness(tmp_path, calls("t.look", size=LOOK_WORDS), answers("done"), window_tokens=12_000)
        turns = await harness.open()
        await run_turns(turns, 1)
        (result,) = [path for path in turns.session.views.visible.at_path if path.endswith(".result")]
        with pytest.raises(CodedError, match=r"pins may have (\d+) together, and \1 are free") as refused:
            await turns.context_fitter.pins.pin(result)
        assert refused.value.code == "pins_full"

    run(check)


def test_the_oldest_pins_end_if_another_model_has_a_smaller_window(tmp_path: Path) -> None:
    async def check() -> None:
        harness = ContextHarness(tmp_path, answers("noted"), *turn_replies(LOOK_WORDS) * 8)
        turns = await harness.open()
        path, pins = await run_first(turns), turns.context_fitter.pins
        await run_turns(turns, 5)
        results = [one for one in turns.session.views.visible.at_path if one.endswith(".result")]
        for one in (*results[:2], path):
            await pins.pin(one)
        await turns.compact()
        harness.model = make_windowed_model(12_000, *["-"] * 11, *turn_replies(LOOK_WORDS))
        turns = await harness.reopen(turns.session)
        assert await turns.run("now with less") == "completed"
        ended = [one for one in await blocks_of(turns) if isinstance(one, Pinned) and not one.pinned]
        assert [(one.target, one.text, one.author) for one in ended] == [
            (results[0], LAPSED, "runtime"),
            (results[1], LAPSED, "runtime"),
        ]
        assert list(turns.session.views.visible.pins) == [path]
        text = await prompt_text(turns)
        assert SECRET in text
        assert results[0] not in turns.session.views.visible.pins
        await assert_replays(harness, turns)
        await assert_opens_the_same(harness, turns)

    run(check)
