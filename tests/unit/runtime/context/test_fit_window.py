"""Fitting the context window: every next request fits, and required content is never lost."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.context import (
    LOOK_WORDS,
    ContextHarness,
    assert_opens_the_same,
    assert_replays,
    decision_calls,
    make_windowed_model,
    prompt_text,
    prunes,
    run_turns,
    summaries,
    turn_replies,
)
from tests.harness.replies import answers
from tests.harness.turn import Step, blocks_of, blocks_of_type, calls, run
from timeloom.app import AgentSettings
from timeloom.core.blocks import (
    ExternalEvent,
    Followup,
    ModelCalled,
    PlansCompacted,
    RoundStarted,
    Titled,
    ToolCall,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.policy.next_step import TurnLimits
from timeloom.core.policy.pruning import PruneSettings
from timeloom.core.render.facts import CardLimits
from timeloom.core.timeline import NO_TURN, Entry


def test_old_turns_become_cards_when_the_cache_is_cold(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        stage = ContextHarness(
            tmp_path, *turn_replies(LOOK_WORDS, summary="Goal: look. Outcome: seen."), *turn_replies(LOOK_WORDS) * 5
        )
        turns = await stage.open()
        await run_turns(turns, 5)
        assert await prunes(turns) == []
        stage.clock.advance(4_000)
        await run_turns(turns, 1)
        (pruned,) = await prunes(turns)
        assert pruned.reason.startswith("the cache is cold")
        assert len(pruned.cuts) == 3
        text = await prompt_text(turns)
        title, card, intact = {
            1: ("PRUNED PRIOR TURNS\n\n", "[PRUNED TURN {}]", "RECENT INTACT TURNS"),
            2: ("[PRUNED TURNS]\n", "[PRUNED t{}]", "[TURNS] oldest first"),
        }[min(edition, 2)]
        assert text.startswith(f"{title}{card.format(1)} ")
        assert {1: 'react.read(["ar:turns[1].react.turn.index"])', 2: 'react.read(["ar:t1.react.turn.index"])'}[
            min(edition, 2)
        ] in text
        assert "Goal: look. Outcome: seen." in text
        assert text.index(card.format(3)) < text.index(intact) < text.index("ask 4")
        assert card.format(4) not in text
        await assert_replays(stage, turns)
        await assert_opens_the_same(stage, turns)

    run(check)


def test_old_rounds_of_a_long_turn_become_rows_when_the_cache_is_cold(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        looks = [calls("t.look", size=LOOK_WORDS + n) for n in range(12)]
        stage = ContextHarness(tmp_path, *looks, answers("one"), answers("two"))
        turns = await stage.open()
        await turns.run("look often")
        stage.clock.advance(4_000)
        await turns.run("and?")
        (pruned,) = await prunes(turns)
        assert pruned.through_seq == 0
        text = await prompt_text(turns)
        card = {
            1: "[PRUNED ROUND 1] to [PRUNED ROUND 9] all of it",
            2: "[PRUNED] rounds 1 to 9 of this turn, all of it",
        }
        assert card[min(edition, 2)] in text
        line = {1: "[ROUND {}]", 2: "[t1.{}]\n"}[min(edition, 2)]
        assert [line.format(n) in text for n in (9, 10)] == [False, True]
        assert text.count("x x x x") > 6
        assert "look often" in text
        await assert_replays(stage, turns)
        await assert_opens_the_same(stage, turns)

    run(check)


def test_old_rounds_of_a_very_long_turn_go_while_it_runs(tmp_path: Path) -> None:
    async def check() -> None:
        looks = [calls("t.look", size=LOOK_WORDS + n) for n in range(60)]
        stage = ContextHarness(tmp_path, *looks, answers("done"))
        stage.setting = AgentSettings(data_dir=tmp_path, limits=TurnLimits(max_iterations=99))
        turns = await stage.open()
        await turns.run("look very often")
        found = await prunes(turns)
        assert 2 <= len(found) <= 8
        assert all("over 1 times the rewrite" in one.reason for one in found)
        assert max(call.estimated_tokens for call in await decision_calls(turns)) < 60 * 1_800
        await assert_replays(stage, turns)
        await assert_opens_the_same(stage, turns)

    run(check)


def test_rows_that_would_save_nothing_are_not_put(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ContextHarness(tmp_path, *[calls("t.look", size=10, notes="n" * 900)] * 40, answers("a"), answers("b"))
        stage.setting = AgentSettings(
            data_dir=tmp_path,
            limits=TurnLimits(max_iterations=99),
            prune=PruneSettings(min_saving_tokens=2_500),
            cards=CardLimits(text_chars=9_000),
        )
        turns = await stage.open()
        await turns.run("look")
        stage.clock.advance(4_000)
        await turns.run("and?")
        assert all(pruned.cuts for pruned in await prunes(turns))

    run(check)


def test_a_warm_cache_is_only_spoilt_where_keeping_has_cost_more(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS) * 40)
        turns = await stage.open()
        before = 0
        for n in range(1, 41):
            await turns.run(f"ask {n}")
            found = await prunes(turns)
            if len(found) > before:
                assert "over 1 times the rewrite" in found[-1].reason
                before = len(found)
        assert 1 <= before <= 6
        await assert_replays(stage, turns)

    run(check)


def test_what_saves_too_little_is_not_pruned(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ContextHarness(tmp_path, *turn_replies(10) * 8)
        turns = await stage.open()
        for n in range(8):
            stage.clock.advance(4_000)
            await turns.run(f"ask {n}")
        assert await prunes(turns) == []

    run(check)


def test_a_turn_that_is_too_large_by_itself_is_summed_up_inside(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        looks = [calls("t.look", size=LOOK_WORDS + n) for n in range(14)]
        plan = calls("react.plan", mode="new", steps=["look", "answer"])
        note = calls("react.write", path="n.md", content="[D] keep x", channel="internal", scratchpad=True)
        stage = ContextHarness(tmp_path, plan, note, *looks, answers("done"), window_tokens=24_000)
        stage.setting = AgentSettings(data_dir=tmp_path, limits=TurnLimits(max_iterations=40))
        turns = await stage.open()
        assert await turns.run("look at everything, but not at the [sea]") == "completed"
        made = await summaries(turns)
        assert made
        last = str(made[-1].text)
        row = {
            1: "## The turn that is running\n- prompt ar:turn_",
            2: "## The running turn\n- prompt ar:t1.user.prompt: look",
        }
        assert row[min(edition, 2)] in last
        assert "look at everything, but not at the [sea]" in last
        assert "[D] keep x" in last
        (history, *_) = blocks_of_type(await blocks_of(turns), PlansCompacted)
        assert isinstance(history, PlansCompacted)
        assert history.plans[0].snapshot.steps == ("look", "answer")
        assert {1: "[REACT.PLAN.HISTORY]", 2: "[EARLIER PLAN "}[min(edition, 2)] in await prompt_text(turns)
        await assert_replays(stage, turns)
        await assert_opens_the_same(stage, turns)

    run(check)


def test_what_was_said_while_turns_ran_outlives_summaries(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        stage = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS) * 12, window_tokens=24_000)
        turns = await stage.open()
        session = turns.session
        heard = iter(("follow", "steer", "alert"))

        def interject(entry: Entry) -> None:
            if isinstance(entry.block, ToolCall) and (kind := next(heard, "")):
                said.append(asyncio.create_task(speak(kind)))

        async def speak(kind: str) -> None:
            if kind == "follow":
                await turns.inbox.follow_up("and the harbour")
            elif kind == "steer":
                await turns.inbox.steer("rather the island")
            else:
                alert = ExternalEvent(kind="alert", message_id=session.new_message_id(), text="storm\nahead")
                await session.append([alert], session.views.progress.turn_id)

        said: list[asyncio.Task[None]] = []
        session.listen(interject)
        while len(await summaries(turns)) < 2:
            await turns.run("ask")
        await asyncio.gather(*said)
        last = str((await summaries(turns))[-1].text)
        title = {1: "Said while turns ran", 2: "Messages during turns"}[min(edition, 2)]
        assert f"## {title}\n- followup 20" in last
        for words in ("and the harbour", "- steer ", "rather the island", "- alert ", "storm ahead"):
            assert words in last

    run(check)


def test_a_message_larger_than_the_window_is_shown_shortened(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        stage = ContextHarness(tmp_path, answers("short"), answers("long"), window_tokens=16_000)
        turns = await stage.open()
        await turns.run("hello")
        assert await turns.run("a long story " * 10_000) == "completed"
        (pruned,) = await prunes(turns)
        assert "react.read" in pruned.cuts[-1].text
        head = {1: "[USER MESSAGE]\n[path: ar:turn_", 2: "[USER]\na long story", 3: "[USER t2]\na long story"}[edition]
        assert pruned.cuts[-1].text.startswith(head)
        sizes = [call.estimated_tokens for call in await decision_calls(turns)]
        assert sizes[-1] + 4_000 <= 16_000
        await assert_replays(stage, turns)

    run(check)


def test_many_small_things_in_one_round_become_one_card(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ContextHarness(tmp_path, answers("well"), window_tokens=10_000)
        turns = await stage.open()
        await turns.session.append([UserPrompt(text="early")], turns.session.new_turn_id())
        flood = tuple(Followup(message_id=turns.session.new_message_id(), text=f"and {n} " * 8) for n in range(200))
        from_turn = turns.session.new_turn_id()
        await turns.session.append([TurnStarted(n=2), UserPrompt(text="go"), RoundStarted(round=1), *flood], from_turn)
        assert await turns.resume() == "completed"
        text = await prompt_text(turns)
        assert "[PRUNED TURN 2]" in text
        assert "go" in text
        sizes = [call.estimated_tokens for call in await decision_calls(turns)]
        assert sizes[0] + 2_500 <= 10_000

    run(check)


def test_where_the_system_text_alone_fills_the_window_the_turn_says_so(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        window = {1: 4_000, 2: 2_400}[min(edition, 2)]
        stage = ContextHarness(tmp_path, answers("never"), window_tokens=window)
        turns = await stage.open()
        assert await turns.run("hello") == "runtime_error"
        (end,) = blocks_of_type(await blocks_of(turns), TurnEnded)
        assert isinstance(end, TurnEnded)
        assert end.text.startswith(f"the request does not fit the model's window of {window} tokens: the system text")
        assert blocks_of_type(await blocks_of(turns), ModelCalled) == []

    run(check)


def test_where_nothing_can_be_made_to_fit_nothing_is_forgotten(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        stage = ContextHarness(tmp_path, *turn_replies(400) * 2)
        turns = await stage.open()
        await run_turns(turns, 2)
        stage.model = make_windowed_model({1: 4_000, 2: 2_400}[min(edition, 2)])
        turns = await stage.reopen(turns.session)
        assert await turns.run("hello") == "runtime_error"
        assert await prunes(turns) == []
        assert await summaries(turns) == []
        assert [event.status for event in stage.events] == ["started", "skipped"]

    run(check)


def test_a_card_for_all_that_is_left_leads_to_every_turn_it_stands_for(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        stage = ContextHarness(tmp_path, *turn_replies(400) * 5, window_tokens={1: 6_000, 2: 3_600}[min(edition, 2)])
        turns = await stage.open()
        await turns.session.append([Titled(text="t")], NO_TURN)
        await run_turns(turns, 5)
        assert await summaries(turns) == []
        last = (await prunes(turns))[-1].cuts[-1].text
        head, before = {
            1: ("[PRUNED TURN 5] all of it:", "What came before, an index for each turn: {}\nOf no turn: ar:log[2]"),
            2: ("[PRUNED t5] all of it:", "[EARLIER TURNS] an index for each: {}\n[OF NO TURN] ar:log[2]"),
        }[min(edition, 2)]
        assert last.startswith(head)
        assert before.format("ar:turns[1-4].react.turn.index") in last
        await assert_replays(stage, turns)
        await assert_opens_the_same(stage, turns)

    run(check)


def test_a_prompt_that_its_provider_finds_too_long_becomes_smaller_each_time(tmp_path: Path) -> None:
    async def check() -> None:
        long: Step = {"error": "context_too_long", "repeat": 3}
        stage = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS) * 6, long, answers("ok"))
        turns = await stage.open()
        await run_turns(turns, 6)
        assert await turns.run("a long story " * 900) == "completed"
        sizes = [call.estimated_tokens for call in await decision_calls(turns)][-4:]
        assert sizes == sorted(sizes, reverse=True)
        assert len(set(sizes)) == 4
        await assert_replays(stage, turns)

    run(check)


def test_a_short_message_is_not_replaced_by_a_longer_card(tmp_path: Path) -> None:
    async def check() -> None:
        long: Step = {"error": "context_too_long", "repeat": 3}
        stage = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS) * 6, long, answers("ok"))
        turns = await stage.open()
        await run_turns(turns, 7)
        sizes = [call.estimated_tokens for call in await decision_calls(turns)][-4:]
        assert sizes[0] > sizes[1] == sizes[2] == sizes[3]
        assert "ask 7\n" in await prompt_text(turns)
        assert await prunes(turns) == []
        await assert_replays(stage, turns)

    run(check)


@settings(max_examples=max(8, settings().max_examples // 8))
@given(
    window=st.sampled_from((9_000, 16_000, 60_000)),
    sizes=st.lists(st.sampled_from((1, 400, 5_000, 60_000)), min_size=1, max_size=7),
    words=st.lists(st.sampled_from(("hi", "tell me more " * 300, "story " * 12_000)), min_size=1, max_size=7),
    pauses=st.lists(st.sampled_from((1, 400)), min_size=1, max_size=3),
)
def test_whatever_was_said_the_next_request_fits(
    window: int, sizes: list[int], words: list[str], pauses: list[int]
) -> None:
    async def check(tmp_path: Path) -> None:
        steps = [step for size in sizes for step in turn_replies(size)]
        stage = ContextHarness(tmp_path, *steps, window_tokens=window)
        turns = await stage.open()
        for n in range(len(sizes)):
            stage.clock.advance(pauses[n % len(pauses)])
            assert await turns.run(f"{n} {words[n % len(words)]}") == "completed"
            text = await prompt_text(turns)
            assert "ar:" in text or "[USER" in text
        for call in await decision_calls(turns):
            assert call.estimated_tokens + window // 4 <= window
        await assert_replays(stage, turns)
        await assert_opens_the_same(stage, turns)

    with_folder(check)


def with_folder(check: Callable[[Path], Coroutine[object, object, None]]) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder)))
