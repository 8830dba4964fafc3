"""Harness for compaction: a conversation with a model of a small window and a manual clock."""

import json
from contextvars import ContextVar
from pathlib import Path

import msgspec

from tests.harness.replies import answers
from tests.harness.turn import HEADER, Step, TurnHarness, blocks_of, calls
from timeloom.app import open_session
from timeloom.core.blocks import ModelCalled, Pruned, RangeSummary
from timeloom.core.policy.next_step import AskModel
from timeloom.providers.script import ScriptedModel
from timeloom.providers.script_file import parse_script
from timeloom.runtime.context.fit_window import CompactionEvent
from timeloom.runtime.replay.check_retrievable import check_retrieval
from timeloom.runtime.replay.replay import ReplayedCall, replay
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnRunner

ASK = AskModel(1, 1, last=False)
STARTED_US = 1_770_000_000_000_000

LOOK_WORDS = 8_000
"""Words that one `t.look` returns, about 1,800 tokens of a prompt."""


EDITION: ContextVar[int] = ContextVar("EDITION", default=1)
"""The edition of the turns of new harnesses; a suite that runs in both editions sets it."""


class ManualClock:
    """A clock that advances 1 ms per reading, and by `wait`."""

    def __init__(self) -> None:
        self.us = STARTED_US

    def epoch_us(self) -> int:
        self.us += 1_000
        return self.us

    def advance(self, seconds: float) -> None:
        self.us += int(seconds * 1_000_000)


class ContextHarness(TurnHarness):
    """A conversation with a scripted model of a given window."""

    def __init__(self, tmp_path: Path, *steps: str | Step, window_tokens: int = 200_000) -> None:
        super().__init__(tmp_path)
        self.model = make_windowed_model(window_tokens, *steps)
        self.clock = ManualClock()
        self.events: list[CompactionEvent] = []
        self.edition = EDITION.get()

    async def open(self, session: Session | None = None) -> TurnRunner:
        self.setting = msgspec.structs.replace(self.setting, edition=self.edition)
        turns = await super().open(session or await open_session(self.store, None, HEADER, clock=self.clock))
        turns.context_fitter.listen(self.events.append)
        return turns


def make_windowed_model(window_tokens: int, *steps: str | Step) -> ScriptedModel:
    items: list[object] = [{"reply": step} if isinstance(step, str) else step for step in steps]
    return ScriptedModel(parse_script(json.dumps(items)), window_tokens=window_tokens)


def turn_replies(size: int, answer: str = "done", summary: str = "") -> list[str]:
    """Return the replies of a turn that looks at something of that size and then answers."""
    ending = f"<channel:summary>{summary}</channel:summary>" if summary else ""
    return [calls("t.look", size=size), answers(answer) + ending]


async def summaries(turns: TurnRunner) -> list[RangeSummary]:
    return [block for block in await blocks_of(turns) if isinstance(block, RangeSummary)]


async def prunes(turns: TurnRunner) -> list[Pruned]:
    return [block for block in await blocks_of(turns) if isinstance(block, Pruned)]


async def decision_calls(turns: TurnRunner) -> list[ModelCalled]:
    return [block for block in await blocks_of(turns) if isinstance(block, ModelCalled) and block.purpose == "decision"]


async def prompt_text(turns: TurnRunner) -> str:
    """Return the current cacheable part of the prompt."""
    view = await turns.context_fitter.prompt_builder.render()
    return "".join(segment.text for segment in view.segments())


async def run_turns(turns: TurnRunner, count: int) -> None:
    for n in range(1, count + 1):
        assert await turns.run(f"ask {n}") == "completed"


async def assert_replays(stage: TurnHarness, turns: TurnRunner) -> None:
    """Assert that replay reproduces every request byte for byte."""
    found = [one async for one in replay(stage.store, turns.session.conversation)]
    assert [one for one in found if not isinstance(one, ReplayedCall) or one.verdict != "same"] == []


async def assert_opens_the_same(stage: TurnHarness, turns: TurnRunner) -> None:
    """Assert that a reopened conversation has the same prompt and that two reads retrieve all hidden content."""
    kept = await prompt_text(turns)
    assert (await check_retrieval(stage.store, turns.session.conversation)).lost == ()
    assert await prompt_text(await stage.reopen(turns.session)) == kept
