"""Compaction never covers a result that the model has not seen."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.harness.context import ContextHarness, assert_replays
from tests.harness.replies import answers
from tests.harness.turn import blocks_of, blocks_of_type, calls, run
from timeloom.app import AgentSettings
from timeloom.core.blocks import RangeSummary, ToolCall
from timeloom.core.policy.gates import allow
from timeloom.core.policy.next_step import TurnLimits
from timeloom.ports.model import ModelEvent, ModelRequest, TextSegment
from timeloom.providers.script import ScriptedModel
from timeloom.runtime.turn.loop import TurnRunner


class RecordingModel(ScriptedModel):
    """A scripted model that keeps the text of its requests."""

    prompts: list[str]

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        if request.purpose == "decision":
            texts = [segment.text for segment in request.segments if isinstance(segment, TextSegment)]
            self.prompts.append("".join(texts))
        return super().stream(request)


async def open_turns(harness: ContextHarness) -> tuple[TurnRunner, list[str]]:
    assert isinstance(harness.model, ScriptedModel)
    harness.model.__class__ = RecordingModel
    prompts: list[str] = []
    harness.model.prompts = prompts  # pyright: ignore[reportAttributeAccessIssue]
    harness.setting = AgentSettings(
        data_dir=harness.setting.data_dir, limits=TurnLimits(max_iterations=40, fanout="safe_fanout")
    )
    turns = await harness.open()
    turns.action_context.governor.policies = (lambda _: allow(),)
    return turns, prompts


@pytest.mark.parametrize("window_tokens", [24_000, 48_000, 200_000])
def test_every_result_is_named_in_the_request_after_it(tmp_path: Path, window_tokens: int) -> None:
    async def check() -> None:
        words = window_tokens // 2
        rounds = [
            "".join(
                [
                    calls("t.look", size=words + n),
                    calls("t.send") if n in (4, 20) else calls("t.look", size=n),
                    calls("t.look", size=words + n + 1),
                ]
            )
            for n in range(0, 24, 2)
        ]
        harness = ContextHarness(tmp_path, *rounds, answers("done"), window_tokens=window_tokens)
        turns, prompts = await open_turns(harness)
        assert await turns.run("look and send") == "completed"
        blocks = await blocks_of(turns)
        assert blocks_of_type(blocks, RangeSummary) or window_tokens == 200_000
        ids = [block.tool_call_id for block in blocks if isinstance(block, ToolCall)]
        assert len(ids) == 36
        for at, prompt in enumerate(prompts[1:]):
            for call_id in ids[3 * at : 3 * at + 3]:
                assert f"{call_id}.result" in prompt
        await assert_replays(harness, turns)

    run(check)


def test_a_summary_names_the_calls_of_the_running_turn_and_their_effects(tmp_path: Path) -> None:
    async def check() -> None:
        looks = [calls("t.look", size=9_000 + n) for n in range(12)]
        harness = ContextHarness(tmp_path, calls("t.send"), *looks, answers("done"), window_tokens=24_000)
        turns, prompts = await open_turns(harness)
        assert await turns.run("send, then look") == "completed"
        (sent,) = [
            block.tool_call_id
            for block in await blocks_of(turns)
            if isinstance(block, ToolCall) and block.tool_id == "t.send"
        ]
        for prompt in prompts[1:]:
            assert f"{sent}.result" in prompt
        assert f"- t.send ok, had effects tc:{turns.session.views.progress.turn_id}.{sent}.result" in prompts[-1]
        assert "1 x t.send ok" in prompts[-1]

    run(check)


def test_a_message_that_does_not_fit_fills_the_window_with_its_head_and_tail(tmp_path: Path) -> None:
    async def check() -> None:
        harness = ContextHarness(tmp_path, answers("done"), window_tokens=60_000)
        turns, prompts = await open_turns(harness)
        message = "\n".join(f"line {n} of a long message" for n in range(40_000))
        assert await turns.run(message) == "completed"
        (prompt,) = prompts
        assert "line 0 of" in prompt
        assert "line 39999 of" in prompt
        assert prompt.count(" of a long message") > 3_000
        assert f'react.read(["ar:{turns.session.views.progress.turn_id}.user.prompt"])' in prompt
        assert "more characters, lines " in prompt

    run(check)
