"""Turns whose answer must fit a JSON schema."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.harness.replies import answers, decision_reply
from tests.harness.turn import TurnHarness
from timeloom.core.blocks import AnyBlock, Completion, ModelCalled, Notice, TurnEnded, TurnStarted, UserPrompt
from timeloom.runtime.replay.replay import ReplayedCall, replay
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.tools.output_format import OutputFormat


class Fare(msgspec.Struct):
    price: float


FARE = OutputFormat.from_type(Fare)


def harness(tmp_path: Path, *steps: str, edition: int = 1, output: OutputFormat | None = FARE) -> TurnHarness:
    made = TurnHarness(tmp_path, *steps)
    made.setting = msgspec.structs.replace(made.setting, edition=edition, output=output)
    return made


async def blocks_of(turns: TurnRunner) -> list[AnyBlock]:
    session = turns.session
    return [entry.block for entry in await session.entries(range(1, session.views.tail + 1))]


@pytest.mark.parametrize("edition", [1, 2])
def test_an_answer_that_does_not_fit_is_asked_for_again(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        made = harness(tmp_path, answers("four"), answers('```json\n{"price": 4}\n```'), edition=edition)
        turns = await made.open()
        assert await turns.run("How much?") == "completed"
        blocks = await blocks_of(turns)
        assert [one.output for one in blocks if isinstance(one, TurnStarted)] == [FARE.schema]
        (notice,) = [one for one in blocks if isinstance(one, Notice)]
        assert notice.code == "answer_invalid"
        assert [one.text for one in blocks if isinstance(one, Completion)] == ['{"price": 4}']
        systems = [await turns.session.text(one.system) for one in blocks if isinstance(one, ModelCalled)]
        assert all(FARE.schema in text for text in systems)
        calls = [one async for one in replay(made.store, turns.session.conversation)]
        assert len(calls) == 2
        assert all(one.stored_sha256 == one.rebuilt_sha256 for one in calls if isinstance(one, ReplayedCall))

    asyncio.run(check())


def test_a_turn_ends_with_a_reason_once_its_retries_are_used_up(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await harness(tmp_path, *[answers('{"price": "4"}')] * 3).open()
        assert await turns.run("How much?") == "protocol_failure"
        blocks = await blocks_of(turns)
        (ended,) = [one for one in blocks if isinstance(one, TurnEnded)]
        assert "at `$.price` expected a number" in ended.text
        assert not [one for one in blocks if isinstance(one, Completion)]

    asyncio.run(check())


def test_a_resumed_turn_keeps_its_schema(tmp_path: Path) -> None:
    async def check() -> None:
        made = harness(tmp_path, answers("four"), answers('{"price": 4}'), output=None)
        turns = await made.open()
        await turns.open_turn(UserPrompt(text="How much?"), output=FARE.schema)
        await turns.session.flush()
        turns = await made.reopen(turns.session)
        assert await turns.resume() == "completed"
        assert [one.text for one in await blocks_of(turns) if isinstance(one, Completion)] == ['{"price": 4}']

    asyncio.run(check())


def test_json_without_a_decision_is_the_answer_and_other_text_is_not(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await harness(tmp_path, "It costs four.", '{"price": 4}').open()
        assert await turns.run("How much?") == "completed"
        assert [one.text for one in await blocks_of(turns) if isinstance(one, Completion)] == ['{"price": 4}']

    asyncio.run(check())


def test_a_model_that_gives_up_answers_in_words(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await harness(tmp_path, decision_reply({"action": "exit", "final_answer": "No fares."})).open()
        assert await turns.run("How much?") == "exited"

    asyncio.run(check())
