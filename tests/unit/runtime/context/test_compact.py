"""The summariser: a model writes the prose of a summary, and there is a summary even if it fails."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.context import (
    LOOK_WORDS,
    ContextHarness,
    assert_opens_the_same,
    assert_replays,
    decision_calls,
    prompt_text,
    run_turns,
    summaries,
    turn_replies,
)
from tests.harness.turn import Step, blocks_of, run
from timeloom.app import AgentSettings
from timeloom.core.blocks import (
    Followup,
    ModelAnswered,
    ModelCalled,
    RangeSummary,
    Steer,
)
from timeloom.core.policy.gates import PolicyResult, Proposal, refuse
from timeloom.core.render.v1.summary import extract_prose
from timeloom.core.timeline import Entry
from timeloom.providers.script import ScriptedModel
from timeloom.runtime.erase.erase import EraseRequest, erase


def test_a_request_that_would_be_too_large_is_summed_up_first(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        said: Step = {"reply": "The user looks at things.\n# A heading", "when": "compaction", "repeat": True}
        stage = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS, summary="Seen: x.") * 30, said, window_tokens=24_000)
        stage.summary_model = stage.model
        turns = await stage.open()
        await run_turns(turns, 30)
        made = await summaries(turns)
        assert len(made) > 2
        last = str(made[-1].text)
        assert last.startswith("The user looks at things.\n### A heading\n\n## Covered\n")
        assert "No model" not in last
        assert made[-1].first_seq == 2
        assert len(made[-1].covered_turn_ids) > len(made[0].covered_turn_ids)
        text = await prompt_text(turns)
        title, head = {
            1: ("[COMPACTED PRIOR CONVERSATION MEMORY]", "[CONVERSATION SUMMARY]"),
            2: ("[SUMMARY OF EARLIER TURNS]", "[SUMMARY su:t"),
        }[min(edition, 2)]
        assert text.startswith(title)
        assert text.count(head) == 1
        assert {event.status for event in stage.events} == {"started", "completed"}
        assert all(one.after_tokens < one.before_tokens for one in stage.events if one.status == "completed")
        sizes = [call.estimated_tokens for call in await decision_calls(turns)]
        assert max(sizes) + 6_000 <= 24_000
        await assert_replays(stage, turns)
        await assert_opens_the_same(stage, turns)

    run(check)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"error": "overloaded", "when": "compaction"}, "its model failed"),
        ({"reply": " \n", "when": "compaction"}, "its model wrote nothing"),
        ({"reply": "half of", "error": "cut", "when": "compaction"}, "its model failed"),
    ],
)
def test_where_the_summariser_fails_there_is_a_summary_all_the_same(tmp_path: Path, step: Step, why: str) -> None:
    async def check() -> None:
        stage = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS, summary="Seen: x.") * 12, step, window_tokens=24_000)
        stage.summary_model = stage.model
        turns = await stage.open()
        await run_turns(turns, 12)
        first = str((await summaries(turns))[0].text)
        assert f"No model wrote this summary: {why}" in first
        assert first.startswith("- turn 1: Seen: x.\n")

    run(check)


def test_a_summary_that_is_too_long_is_cut(tmp_path: Path) -> None:
    async def check() -> None:
        step: Step = {"reply": "word " * 20_000, "when": "compaction", "repeat": True}
        stage = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS) * 12, step, window_tokens=24_000)
        stage.summary_model = stage.model
        turns = await stage.open()
        await run_turns(turns, 12)
        assert all(len(str(one.text)) < 12_000 for one in await summaries(turns))
        assert "…\n\n## Covered" in str((await summaries(turns))[0].text)

    run(check)


def test_a_summary_that_takes_too_long_is_made_by_hand(tmp_path: Path) -> None:
    async def check() -> None:
        slow: Step = {"reply": "never", "chunk": 1, "delay_ms": 1_000, "when": "compaction", "repeat": True}
        stage = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS) * 8, slow, window_tokens=24_000)
        stage.summary_model = stage.model
        turns = await stage.open()
        hasty = replace(turns.context_fitter.compactor, deadline_s=0.3)
        turns = replace(turns, context_fitter=replace(turns.context_fitter, compactor=hasty))
        await run_turns(turns, 8)
        assert "there was no summary within 0.3 s" in str((await summaries(turns))[0].text)

    run(check)


def test_a_summary_that_is_refused_is_made_by_hand_and_the_turn_goes_on(tmp_path: Path) -> None:
    def no_summaries(proposal: Proposal) -> PolicyResult | None:
        step = proposal.step
        return refuse("no summaries here") if getattr(step, "model", "") == "for summaries" else None

    async def check() -> None:
        stage = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS) * 8, window_tokens=24_000)
        stage.setting = AgentSettings(data_dir=tmp_path, policies=(no_summaries,))
        stage.summary_model = ScriptedModel([], name="for summaries")
        turns = await stage.open()
        await run_turns(turns, 8)
        assert "No model wrote this summary: no summaries here" in str((await summaries(turns))[0].text)
        assert [
            one for one in await blocks_of(turns) if isinstance(one, ModelCalled) and one.purpose != "decision"
        ] == []

    run(check)


def test_a_summary_that_is_refused_without_a_reason_is_made_by_hand(tmp_path: Path) -> None:
    def no_summaries(proposal: Proposal) -> PolicyResult | None:
        return refuse("") if getattr(proposal.step, "model", "") == "for summaries" else None

    async def check() -> None:
        stage = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS, summary="Seen: x.") * 8, window_tokens=24_000)
        stage.setting = AgentSettings(data_dir=tmp_path, policies=(no_summaries,))
        stage.summary_model = ScriptedModel([], name="for summaries")
        turns = await stage.open()
        await run_turns(turns, 8)
        text = str((await summaries(turns))[0].text)
        assert text.startswith("- turn 1: Seen: x.\n")
        assert "No model wrote this summary" not in text

    run(check)


def test_a_steer_interrupts_the_summariser_and_is_heard(tmp_path: Path) -> None:
    async def check() -> None:
        slow: Step = {"reply": "never", "chunk": 1, "delay_ms": 1_000, "when": "compaction", "repeat": True}
        stage = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS) * 8, slow, window_tokens=24_000)
        stage.summary_model = stage.model
        turns = await stage.open()
        asking, summed_up = asyncio.Event(), asyncio.Event()

        def hear(entry: Entry) -> None:
            if isinstance(entry.block, ModelCalled) and entry.block.purpose == "compaction":
                asking.set()
            if isinstance(entry.block, RangeSummary):
                summed_up.set()

        turns.session.listen(hear)
        running = asyncio.create_task(run_turns(turns, 8))
        await asking.wait()
        assert await turns.inbox.follow_up("and the other one")
        assert await turns.inbox.steer("quickly")
        await summed_up.wait()
        running.cancel()
        blocks = await blocks_of(turns)
        outcome = next(one for one in blocks if isinstance(one, ModelAnswered) and one.purpose == "compaction")
        assert outcome.error == "steered"
        summary = next(one for one in blocks if isinstance(one, RangeSummary))
        assert "No model wrote this summary: the user changed course" in str(summary.text)
        heard = [type(one) for one in blocks if isinstance(one, Followup | Steer | RangeSummary)]
        assert heard[:3] == [Followup, Steer, RangeSummary]

    run(check)


def test_a_summary_that_was_erased_is_made_anew_from_the_turns(tmp_path: Path) -> None:
    async def check() -> None:
        steps = [step for n in range(40) for step in turn_replies(LOOK_WORDS, summary=f"Seen: thing {n}.")]
        stage = ContextHarness(tmp_path, *steps, window_tokens=24_000)
        turns = await stage.open()
        await run_turns(turns, 12)
        before = len(await summaries(turns))
        await turns.session.close()
        # The first message.
        forget = EraseRequest(conversation=turns.session.conversation, paths=("ar:log[3]",))
        await erase(stage.store, forget, tmp_path / "workspaces", "ann", stage.clock)
        turns = await stage.reopen(turns.session)
        while len(made := await summaries(turns)) == before:
            await run_turns(turns, 1)
        assert all(one.erased for one in made[:before])
        prose = extract_prose(str(made[-1].text))
        assert prose.startswith("- turn 1: [ERASED]\n- turn 2: Seen: thing 1.\n- turn 3: Seen: thing 2.")
        await assert_opens_the_same(stage, turns)

    run(check)
