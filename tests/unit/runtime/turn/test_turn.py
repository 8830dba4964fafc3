"""The loop: scripted models hold whole conversations over real stores, and every step is on the timeline."""

import asyncio
from pathlib import Path

import pytest

from tests.harness.replies import answers, decision_reply
from tests.harness.turn import Step, TurnHarness, blocks_of, blocks_of_type, calls, run, script
from timeloom.core.blocks import (
    Completion,
    EndReason,
    Followup,
    ModelAnswered,
    ModelCalled,
    Notice,
    PlanRecorded,
    RangeSummary,
    ResultStatus,
    RoundStarted,
    SourcesAdded,
    Steer,
    ToolCall,
    TurnEnded,
    WorkingSummary,
)
from timeloom.core.policy.next_step import TurnLimits
from timeloom.core.render.foreign_text.fence import unescape
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import NO_TURN, Entry


def test_a_conversation_of_several_rounds_is_wholly_on_the_timeline(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(
            tmp_path,
            calls("react.plan", mode="new", steps=["write", "answer"]),
            calls("react.write", notes="✓ [1]", path="files/a.md", content="# A\n\nline one\n"),
            calls("react.patch", path="files/a.md", patch="@@\n-line one\n+line 1\n"),
            answers("done [[S:9]]", notes="✓ [2]") + "<channel:summary>Goal: a file</channel:summary>",
        )
        turns = await stage.open()
        assert await turns.run("write a file") == "completed"
        blocks = await blocks_of(turns)
        assert [block.tool_id for block in blocks if isinstance(block, ToolCall)] == [
            "react.plan",
            "react.write",
            "react.patch",
        ]
        assert turns.session.views.calls.open == {}
        assert [block.text for block in blocks if isinstance(block, Completion | WorkingSummary)] == [
            "done [[S:9]]",
            "Goal: a file",
        ]
        plans = [block for block in blocks if isinstance(block, PlanRecorded)]
        assert plans[-1].snapshot.state == "complete"
        turn = turns.session.views.progress.turn_id
        assert (turns.action_context.out_dir / turn / "files" / "a.md").read_text() == "# A\n\nline 1\n"
        assert stage.channel_text("answer") == "done [[S:9]]"
        assert stage.channel_text("canvas") == "# A\n\nline one\n"

    run(check)


def test_escapes_of_the_prompt_that_a_model_copies_do_not_reach_files(tmp_path: Path) -> None:
    async def check() -> None:
        copied = "close with <~/channel:code> or <~channel:code>, ~ is ~"
        stage = TurnHarness(
            tmp_path, calls("react.write", path="files/a.md", content=copied, kind="file"), answers("ok")
        )
        turns = await stage.open()
        await turns.run("go")
        file = turns.action_context.out_dir / turns.session.views.progress.turn_id / "files" / "a.md"
        assert file.read_text() == unescape(copied) != copied

    run(check)


def test_a_second_turn_sees_the_first(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("one"), answers("two"))
        turns = await stage.open()
        await turns.run("first")
        await turns.run("second")
        again = await stage.reopen(turns.session)
        stage.model = script(answers("one"), answers("two"), answers("three"))
        again.model_caller.model = stage.model
        assert await again.run("third") == "completed"
        texts = [block.text for block in await blocks_of(again) if isinstance(block, Completion)]
        assert texts == ["one", "two", "three"]

    run(check)


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (["<channel:thinking>hm</channel:thinking>"] * 3, "protocol_failure"),
        ([{"error": "overloaded", "repeat": 5}], "provider_error"),
        ([calls("t.look")] * 2 + [calls("t.look")] * 3, "max_iterations"),
        ([decision_reply({"action": "exit", "notes": "cannot"})], "exited"),
        ([decision_reply({"action": "exit"})], "exited"),
        ([decision_reply({"action": "exit", "final_answer": " "})], "exited"),
    ],
)
def test_a_turn_that_comes_to_no_answer_says_why(tmp_path: Path, steps: list[str | Step], reason: EndReason) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path, *steps, limits=TurnLimits(max_iterations=3)).open()
        assert await turns.run("go") == reason
        (end,) = blocks_of_type(await blocks_of(turns), TurnEnded)
        assert isinstance(end, TurnEnded)
        assert end.text

    run(check)


def test_failures_that_pass_are_tried_again(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(
            tmp_path, {"error": "overloaded"}, {"error": "cut", "reply": "<channel:thinking>half"}, answers("ok")
        )
        turns = await stage.open()
        assert await turns.run("go") == "completed"
        outcomes = [block for block in await blocks_of(turns) if isinstance(block, ModelAnswered)]
        assert [outcome.error for outcome in outcomes] == ["overloaded", "cut", ""]
        assert outcomes[1].interrupted

    run(check)


def test_a_prompt_that_is_too_long_is_sent_again_with_less(tmp_path: Path) -> None:
    async def check() -> None:
        looks = [calls("t.look", size=4000), calls("t.look", size=4000), calls("t.look")]
        stage = TurnHarness(tmp_path, *looks, {"error": "context_too_long"}, answers("ok"))
        turns = await stage.open()
        assert await turns.run("go") == "completed"
        (summary,) = blocks_of_type(await blocks_of(turns), RangeSummary)
        assert isinstance(summary, RangeSummary)
        assert "ar:turns[1].react.turn.index" in str(summary.text)
        first, second = [block for block in await blocks_of(turns) if isinstance(block, ModelCalled)][-2:]
        assert second.estimated_tokens < first.estimated_tokens

    run(check)


def test_several_actions_share_a_round_where_that_is_allowed(tmp_path: Path) -> None:
    both = calls("t.look") + calls("t.look", size=2)
    for mode, expected in (("safe_fanout", 2), ("off", 0)):

        async def check(mode: str = mode, expected: int = expected) -> None:
            limits = TurnLimits(fanout="safe_fanout" if mode == "safe_fanout" else "off")
            stage = TurnHarness(tmp_path, both, answers("ok"), limits=limits)
            turns = await stage.open()
            assert await turns.run("go") == "completed"
            assert len(stage.effects) == expected
            notices = blocks_of_type(await blocks_of(turns), Notice)
            assert bool(notices) == (mode == "off")

        run(check)


def test_an_unknown_tool_and_bad_parameters_are_results(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path, calls("t.nope"), calls("t.look", size="big"), answers("ok")).open()
        assert await turns.run("go") == "completed"
        failed = [
            block.error.code for block in await blocks_of(turns) if isinstance(block, ResultStatus) and block.error
        ]
        assert failed == ["unknown_tool", "tool_params_invalid"]

    run(check)


def test_a_steer_stops_the_generation_at_once(tmp_path: Path) -> None:
    async def check() -> None:
        slow: Step = {"reply": answers("never"), "chunk": 1, "delay_ms": 200}
        stage = TurnHarness(tmp_path, slow, answers("the other way"))
        turns = await stage.open()
        asked = asyncio.Event()
        turns.session.listen(lambda entry: asked.set() if isinstance(entry.block, ModelCalled) else None)
        running = asyncio.create_task(turns.run("go"))
        await asked.wait()
        await turns.inbox.steer("turn around")
        assert await running == "completed"
        blocks = await blocks_of(turns)
        assert [block.error for block in blocks if isinstance(block, ModelAnswered)] == ["steered", ""]
        assert len(blocks_of_type(blocks, Steer)) == 1

    run(check)


def test_a_steer_without_words_ends_the_turn(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, {"reply": answers("never"), "chunk": 1, "delay_ms": 200})
        turns = await stage.open()
        asked = asyncio.Event()
        turns.session.listen(lambda entry: asked.set() if isinstance(entry.block, ModelCalled) else None)
        running = asyncio.create_task(turns.run("go"))
        await asked.wait()
        await turns.inbox.steer()
        assert await running == "stopped"

    run(check)


def test_a_follow_up_is_seen_in_the_same_turn(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, {"reply": answers("first"), "chunk": 20, "delay_ms": 5}, answers("second"))
        turns = await stage.open()
        sent: list[asyncio.Task[object]] = []

        def follow(entry: Entry) -> None:
            # While the model is asked for the first time, after its prompt was made.
            if isinstance(entry.block, ModelCalled) and not sent:
                sent.append(asyncio.create_task(turns.inbox.follow_up("and also?")))

        turns.session.listen(follow)
        assert await turns.run("go") == "completed"
        blocks = await blocks_of(turns)
        assert len(blocks_of_type(blocks, Followup)) == 1
        assert [block.text for block in blocks if isinstance(block, Completion)] == ["first", "second"]

    run(check)


def test_there_is_nothing_to_go_on_with_before_the_first_turn(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path, answers("x")).open()
        assert await turns.resume() == "runtime_error"

    run(check)


@pytest.mark.parametrize(
    ("answer", "used", "named"),
    [
        ("So [[S:1]].", (1,), ""),
        ("So [[S:1,9]] and <div>[~[S:7]]</div> `[[S:8]]`.", (1,), "9, 7"),
        ("So [[S:2-100]].", (), "2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 89 more"),
    ],
)
def test_an_answer_that_cites_what_is_not_in_the_pool_says_so_and_costs_no_round(
    tmp_path: Path, answer: str, used: tuple[int, ...], named: str
) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path, answers(answer)).open()
        row = SourceRow(sid=1, source_type="manual", title="One")
        await turns.session.append([SourcesAdded(rows=(row,))], NO_TURN)
        assert await turns.run("go") == "completed"
        blocks = await blocks_of(turns)
        (completion,) = [block for block in blocks if isinstance(block, Completion)]
        notices = [block for block in blocks if isinstance(block, Notice)]
        assert (completion.sources_used, completion.text) == (used, answer)
        assert [notice.code for notice in notices] == (["source_unknown"] if named else [])
        assert all(f"not in the pool: {named};" in str(notice.text) for notice in notices)
        assert blocks.count(RoundStarted(round=1)) == len([one for one in blocks if isinstance(one, ModelCalled)]) == 1
        assert turns.session.views.progress.refusals == 0

    run(check)
