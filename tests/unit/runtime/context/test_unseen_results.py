"""Compaction never covers a result that the model has not seen, and leaves a trace of each effect of a running turn."""

import json
import re
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from tests.harness.context import ContextHarness, assert_replays, prunes, summaries
from tests.harness.replies import answers
from tests.harness.turn import Step, blocks_of, calls, run
from timeloom.app import AgentSettings
from timeloom.core.blocks import ToolCall
from timeloom.core.ids import CallId
from timeloom.core.policy.gates import allow
from timeloom.core.policy.next_step import TurnLimits
from timeloom.core.render.entry_text import MAX_WORDS_CHARS
from timeloom.core.view.aliases import ConversationNames
from timeloom.ports.model import ModelEvent, ModelRequest, TextSegment
from timeloom.ports.tool import Outcome, ToolContext
from timeloom.providers.script import ScriptedModel
from timeloom.providers.script_file import parse_script
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.tools.define import tool

PAGE_CHARS = 23_000


class RecordingModel(ScriptedModel):
    """A scripted model that keeps the text of its requests."""

    def __init__(self, steps: Sequence[str | Step], window_tokens: int) -> None:
        items = [{"reply": step} if isinstance(step, str) else step for step in steps]
        super().__init__(parse_script(json.dumps(items)), window_tokens=window_tokens)
        self.prompts: list[str] = []

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        if request.purpose == "decision":
            texts = [segment.text for segment in request.segments if isinstance(segment, TextSegment)]
            self.prompts.append("".join(texts))
        return super().stream(request)


class UnseenHarness(ContextHarness):
    """A conversation whose model keeps its prompts, with a tool that transfers money and one that shows pages."""

    def __init__(self, tmp_path: Path, *steps: str | Step, window_tokens: int = 200_000) -> None:
        super().__init__(tmp_path)
        self.model = self.recorder = RecordingModel(steps, window_tokens)
        self.setting = AgentSettings(data_dir=tmp_path, limits=TurnLimits(max_iterations=60, fanout="safe_fanout"))
        self.transfers: list[str] = []

        async def transfer(context: ToolContext) -> Outcome:
            """Transfers money."""
            self.transfers.append(context.tool_call_id)
            return Outcome(status="transferred")

        async def page(context: ToolContext, n: int) -> str:
            """Shows a page."""
            self.effects.append(context.tool_call_id)
            lines = "\n".join(
                f"page {n} has a line {at} about ferry {at * 7 % 31} to port {at * n % 97}" for at in range(999)
            )
            return lines[:PAGE_CHARS]

        self.extra = (
            tool("bank.transfer", effect="irreversible")(transfer),
            tool("t.page", effect="pure")(page),
        )

    async def start(self) -> TurnRunner:
        turns = await self.open()
        turns.action_context.governor.policies = (lambda _: allow(),)
        return turns

    @property
    def prompts(self) -> list[str]:
        return self.recorder.prompts


async def call_ids(turns: TurnRunner, tool_id: str) -> list[str]:
    return [
        block.tool_call_id
        for block in await blocks_of(turns)
        if isinstance(block, ToolCall) and block.tool_id == tool_id
    ]


def is_named(call_id: str, turns: TurnRunner, prompt: str) -> bool:
    """Whether the prompt names the result of the call: by its path, or in edition 2 by its alias."""
    views = turns.session.views
    if views.turns.edition == 1:
        return f"{call_id}.result" in prompt
    alias = ConversationNames(views).call(views.turns.newest, CallId(call_id))
    return re.search(rf"\b{re.escape(alias)}\b", prompt) is not None


def has_result(call_id: str, turns: TurnRunner, prompt: str) -> bool:
    """Whether the prompt shows the result of the call behind its line, at least in part."""
    views = turns.session.views
    if views.turns.edition == 1:
        return f"[TOOL RESULT {call_id}]" in prompt
    alias = ConversationNames(views).call(views.turns.newest, CallId(call_id))
    return f"\n[{alias}]\n" in prompt and f"\n[/{alias}]\n" in prompt


def pages(first: int, count: int = 5) -> str:
    return "".join(calls("t.page", n=n) for n in range(first, first + count))


def test_a_transfer_is_in_the_next_prompt_however_large_its_round_is(tmp_path: Path) -> None:
    async def check() -> None:
        rounds = [pages(100 * at) for at in range(1, 6)]
        last = pages(900, 3) + calls("bank.transfer") + pages(903, 3)
        harness = UnseenHarness(tmp_path, *rounds, last, answers("done"))
        turns = await harness.start()
        assert await turns.run("transfer the money to Ann") == "completed"
        assert len(await summaries(turns)) == 1
        (sent,) = harness.transfers
        assert "bank.transfer" in harness.prompts[-1]
        assert is_named(sent, turns, harness.prompts[-1])
        ids = await call_ids(turns, "t.page")
        assert all(has_result(one, turns, harness.prompts[-1]) for one in ids[-6:])
        await assert_replays(harness, turns)

    run(check)


@pytest.mark.parametrize("window_tokens", [12_000, 24_000, 48_000, 200_000])
def test_every_result_is_named_in_the_request_after_it(tmp_path: Path, window_tokens: int) -> None:
    async def check() -> None:
        words = window_tokens // 2
        rounds = [
            "".join(
                [
                    calls("t.look", size=words + n),
                    calls("bank.transfer") if n in (4, 20) else calls("t.look", size=n),
                    calls("t.look", size=words + n + 1),
                ]
            )
            for n in range(0, 24, 2)
        ]
        harness = UnseenHarness(tmp_path, *rounds, answers("done"), window_tokens=window_tokens)
        turns = await harness.start()
        assert await turns.run("look and transfer") == "completed"
        assert await summaries(turns) or window_tokens == 200_000
        ids = [block.tool_call_id for block in await blocks_of(turns) if isinstance(block, ToolCall)]
        assert len(ids) == 36
        for at, prompt in enumerate(harness.prompts[1:]):
            for call_id in ids[3 * at : 3 * at + 3]:
                assert is_named(call_id, turns, prompt)
        assert all("bank.transfer" in prompt for prompt in harness.prompts[3:])
        await assert_replays(harness, turns)

    run(check)


def test_a_summary_names_the_calls_of_the_running_turn_and_their_effects(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        looks = [calls("t.look", size=9_000 + n) for n in range(12)]
        harness = UnseenHarness(tmp_path, calls("bank.transfer"), *looks, answers("done"), window_tokens=24_000)
        turns = await harness.start()
        assert await turns.run("transfer, then look") == "completed"
        (sent,), turn = harness.transfers, turns.session.views.progress.turn_id
        assert all(is_named(sent, turns, prompt) for prompt in harness.prompts[1:])
        assert "Executed in the running turn: 1 x bank.transfer ok, had effects." in harness.prompts[-1]
        row = {
            1: f"- bank.transfer ok, had effects tc:{turn}.{sent}.result",
            2: "- [t1.1] bank.transfer ok, had effects",
        }
        assert row[min(edition, 2)] in harness.prompts[-1]
        assert "1 x bank.transfer ok" in harness.prompts[-1]
        text = str((await summaries(turns))[-1].text)
        ids = await call_ids(turns, "t.look")
        rows = {
            1: [f"- t.look ok tc:{turn}.{one}.result" for one in ids],
            2: [f"- [t1.{n}] t.look ok" for n in range(2, 14)],
        }
        covered = sum(one in text for one in rows[min(edition, 2)])
        assert covered > 2
        assert {1: f"- all {covered + 1}: ", 2: f"- [CALLS] {covered + 1} in all: "}[min(edition, 2)] in text

    run(check)


@pytest.mark.parametrize("window_tokens", [*range(3_600, 5_200, 200), *range(7_600, 9_200, 200)])
def test_an_effect_is_named_even_where_one_card_replaces_the_conversation(tmp_path: Path, window_tokens: int) -> None:
    async def check() -> None:
        looks = [calls("t.look", size=1_000 + n) for n in range(6)]
        harness = UnseenHarness(tmp_path, calls("bank.transfer"), *looks, answers("done"), window_tokens=window_tokens)
        turns = await harness.start()
        end = await turns.run("transfer, then look")
        assert all("bank.transfer" in prompt for prompt in harness.prompts[1:])
        ids = await call_ids(turns, "t.look")
        for at, prompt in enumerate(harness.prompts[2:]):
            assert ids[at] in prompt if turns.session.views.turns.edition == 1 else is_named(ids[at], turns, prompt)
        assert end == "completed" or not harness.prompts
        if harness.prompts:
            await assert_replays(harness, turns)

    run(check)


def test_entries_that_were_shortened_too_little_are_shortened_again(tmp_path: Path) -> None:
    async def check() -> None:
        harness = UnseenHarness(tmp_path, pages(1, 8), answers("done"), window_tokens=14_000)
        turns = await harness.start()
        assert await turns.run("look at all pages") == "completed"
        ids = await call_ids(turns, "t.page")
        assert all(has_result(one, turns, harness.prompts[-1]) for one in ids)
        assert "[PRUNED T" not in harness.prompts[-1].replace("[PRUNED t", "[PRUNED T")
        assert len(await prunes(turns)) > 1
        await assert_replays(harness, turns)

    run(check)


def test_results_of_a_rejected_request_are_not_summarized_before_the_model_saw_them(tmp_path: Path) -> None:
    async def check() -> None:
        too_long: Step = {"error": "context_too_long"}
        harness = UnseenHarness(tmp_path, pages(1, 4), calls("bank.transfer") + pages(5, 3), too_long, answers("done"))
        turns = await harness.start()
        assert await turns.run("transfer") == "completed"
        (sent,) = harness.transfers
        ids = await call_ids(turns, "t.page")
        assert all(is_named(one, turns, harness.prompts[-1]) for one in (sent, *ids[-3:]))
        assert all(has_result(one, turns, harness.prompts[-1]) for one in ids[-3:])

    run(check)


@pytest.mark.parametrize(("lines", "is_whole"), [(12_000, True), (60_000, False)])
def test_a_very_long_message_is_shown_with_its_end_if_there_is_room(tmp_path: Path, lines: int, is_whole: bool) -> None:
    async def check() -> None:
        harness = UnseenHarness(tmp_path, calls("t.look"), answers("done"))
        turns = await harness.start()
        message = "\n".join(f"line {n} of a long message" for n in range(lines))
        assert len(message) > MAX_WORDS_CHARS
        assert await turns.run(message) == "completed"
        assert all(f"line {lines - 1} of" in prompt for prompt in harness.prompts)
        assert (message in harness.prompts[0]) == is_whole
        assert harness.prompts[0].count(" of a long message") > 9_000
        assert len(await prunes(turns)) == 1
        assert not harness.events
        await assert_replays(harness, turns)

    run(check)


def test_a_message_that_does_not_fit_fills_the_window_with_its_head_and_tail(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        harness = UnseenHarness(tmp_path, answers("done"), window_tokens=60_000)
        turns = await harness.start()
        message = "\n".join(f"line {n} of a long message" for n in range(40_000))
        assert await turns.run(message) == "completed"
        (prompt,) = harness.prompts
        assert "line 0 of" in prompt
        assert "line 39999 of" in prompt
        assert prompt.count(" of a long message") > 3_000
        turn = {1: turns.session.views.progress.turn_id, 2: "t1"}[min(edition, 2)]
        assert f'more characters: react.read(["ar:{turn}.user.prompt"]); lines ' in prompt

    run(check)
