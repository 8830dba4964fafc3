"""The title of a conversation is generated after the answer, and its model cannot disturb the turn."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.harness.replies import answers
from tests.harness.turn import Step, TurnHarness, blocks_of, blocks_of_type, calls, run, script
from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    Erased,
    ModelAnswered,
    ModelCalled,
    Titled,
    TurnEnded,
    TurnStarted,
    Usage,
    UserPrompt,
)
from timeloom.core.codes import CodedError
from timeloom.core.ids import TurnId
from timeloom.core.payload import BlobRef
from timeloom.core.policy.next_step import AskModel
from timeloom.core.view.views import fold
from timeloom.ports.model import FinishEvent, ModelEvent, ModelRequest, TextPiece, TextSegment
from timeloom.runtime.prompt.hashing import request_sha256
from timeloom.runtime.prompt.instructions.load import load_instructions, load_side_instructions
from timeloom.runtime.turn.title import MAX_OUTPUT_TOKENS, TitleGenerator
from timeloom.stores.in_memory.store import MemoryStore


class TitleModel:
    """Answers with these pieces, then waits for the gate; records its requests."""

    name = "small:title"
    window_tokens = 8_000

    def __init__(self, *pieces: str, fails: Exception | None = None) -> None:
        self._pieces = pieces
        self._fails = fails
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked: list[ModelRequest] = []
        self.begun = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.asked.append(request)
        self.begun.set()
        if self._fails:
            raise self._fails
        for piece in self._pieces:
            yield TextPiece(piece)
        await self.gate.wait()
        yield FinishEvent("end", Usage(input_tokens=200, output_tokens=9))

    async def close(self) -> None:
        pass


def titled(stage: TurnHarness, *pieces: str) -> TitleModel:
    stage.title_model = model = TitleModel(*pieces)
    return model


def titles(blocks: list[AnyBlock]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Titled)]


def test_a_model_gives_the_title_after_the_turn(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, calls("t.look"), answers("At 08:15."))
        model = titled(stage, "Ferries ", "to Juist")
        turns = await stage.open()
        assert await turns.run("Which ferry goes to Juist?") == "completed"
        await turns.ensure_title()
        blocks = await blocks_of(turns)
        end = next(at for at, block in enumerate(blocks) if isinstance(block, TurnEnded))
        call, outcome, title = blocks[end + 1 :]
        assert isinstance(call, ModelCalled)
        assert isinstance(outcome, ModelAnswered)
        assert title == Titled(text="Ferries to Juist")
        assert (call.purpose, call.model, call.round) == ("title", "small:title", 2)
        assert (outcome.purpose, outcome.text, outcome.error) == ("title", "Ferries to Juist", "")
        (request,) = model.asked
        (segment,) = request.segments
        assert isinstance(segment, TextSegment)
        assert (request.system, request.purpose, request.number) == (load_instructions()["title"], "title", 0)
        assert request.max_output_tokens == MAX_OUTPUT_TOKENS
        tail = await turns.session.text(call.tail)
        assert segment.text == tail
        assert call.request_sha256 == request_sha256(request.system, "", tail)
        assert "| Which ferry goes to Juist?" in tail
        assert "| At 08:15." in tail
        turn = turns.session.views.progress.turn_id
        assert {entry.turn_id for entry in await turns.session.entries(range(end + 1, len(blocks) + 1))} == {turn}

    run(check)


def test_a_title_of_edition_2_is_asked_for_with_its_texts_and_its_fence(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("[TURN t9] at 08:15."))
        stage.setting = msgspec.structs.replace(stage.setting, edition=2)
        model = titled(stage, "Ferries to Juist")
        turns = await stage.open()
        await turns.run("Which ferry goes to Juist?")
        await turns.ensure_title()
        (request,) = model.asked
        (segment,) = request.segments
        assert isinstance(segment, TextSegment)
        assert request.system == load_side_instructions(2)["title"]
        assert "bar" not in request.system.split()
        assert "]\nWhich ferry goes to Juist?\n[/" in segment.text
        assert "\n~[TURN t9] at 08:15.\n" in segment.text
        assert "| " not in segment.text

    run(check)


def test_the_answer_does_not_wait_for_the_title(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("yes"))
        model = titled(stage, "Ferries")
        model.gate.clear()
        turns = await stage.open()
        assert await turns.run("Which ferry?") == "completed"
        assert turns.session.views.conversation.title == ""
        settling = asyncio.create_task(turns.ensure_title())
        await model.begun.wait()
        assert not settling.done()
        model.gate.set()
        await settling
        assert turns.session.views.conversation.title == "Ferries"

    run(check)


def test_the_next_message_ends_a_title_that_takes_long(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("yes"), answers("no"))
        model = titled(stage, "Ferr")
        model.gate.clear()
        turns = await stage.open()
        await turns.run("Which ferry?")
        await model.begun.wait()
        assert await turns.run("And back?") == "completed"
        await turns.ensure_title()
        blocks = await blocks_of(turns)
        (title,) = [block for block in blocks if isinstance(block, ModelAnswered) and block.purpose == "title"]
        assert (title.error, title.interrupted) == ("steered", True)
        assert titles(blocks) == ["Which ferry?"]
        assert [type(block) for block in blocks[-1:]] == [TurnEnded]
        assert len(model.asked) == 1

    run(check)


def test_a_message_that_comes_before_the_model_is_asked_takes_the_first_words(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("yes"), answers("no"))
        model = titled(stage, "Ferries")
        turns = await stage.open()
        await turns.run("Which ferry?")
        await turns.run("And back?")
        assert model.asked == []
        assert titles(await blocks_of(turns)) == ["Which ferry?"]

    run(check)


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [{"reply": "", "when": "title"}],
        [{"reply": "x" * 200, "when": "title"}],
        [{"error": "overloaded", "when": "title"}],
        [{"reply": "Half a ti", "error": "cut", "when": "title"}],
    ],
)
def test_without_a_good_title_the_first_words_are_it(tmp_path: Path, steps: list[Step]) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("yes"))
        stage.title_model = script(answers("yes"), *steps)
        turns = await stage.open()
        assert await turns.run("Which ferry?") == "completed"
        await turns.ensure_title()
        blocks = await blocks_of(turns)
        assert titles(blocks) == ["Which ferry?"]
        assert len(blocks_of_type(blocks, ModelAnswered)) == 2
        assert stage.channel_text("answer") == "yes"

    run(check)


def test_without_a_model_the_title_is_there_when_the_turn_is_over(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path, answers("yes"), answers("no")).open()
        await turns.run("Which  ferry?\nI wonder.")
        assert (await blocks_of(turns))[-1] == Titled(text="Which ferry? I wonder.")
        await turns.run("And back?")
        await turns.ensure_title()
        assert len(titles(await blocks_of(turns))) == 1

    run(check)


def test_a_message_without_words_takes_its_title_from_the_answer(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path, answers("A picture of a cat."), answers("?")).open()
        await turns.run("...")
        assert turns.session.views.conversation.title == "A picture of a cat."
        other = await TurnHarness(tmp_path, answers("!"), answers("?")).open()
        await other.run("...")
        assert other.session.views.conversation.title == ""

    run(check)


@pytest.mark.parametrize(("size", "error"), [(10_000, "timeout"), (1_000_000, "cut")])
def test_a_model_that_does_not_come_to_an_end_is_given_up(tmp_path: Path, size: int, error: str) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("yes"))
        turns = await stage.open()
        model = TitleModel("x" * size)
        model.gate.clear()
        await turns.session.append([TurnStarted(n=1), UserPrompt(text="Which ferry?")], TurnId("turn_1"))
        await turns.session.append([TurnEnded(reason="completed")], TurnId("turn_1"))
        await TitleGenerator(turns.session, model, deadline_s=0.01).finish()
        (outcome,) = blocks_of_type(await blocks_of(turns), ModelAnswered)
        assert isinstance(outcome, ModelAnswered)
        assert (outcome.error, outcome.purpose) == (error, "title")
        assert len(await turns.session.text(outcome.text)) <= 4_000
        assert turns.session.views.conversation.title == "Which ferry?"

    run(check)


class Clinging:
    """A model that holds its call until the test releases it."""

    name = "clinging"
    window_tokens = 8_000

    def __init__(self) -> None:
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.begun.set()
        try:
            await self.let_go.wait()
            yield TextPiece("never")
        finally:
            await self.let_go.wait()

    async def close(self) -> None:
        pass


def test_a_model_that_does_not_let_go_does_not_keep_the_next_turn_waiting(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("yes"), answers("no"))
        stage.title_model = model = Clinging()
        turns = await stage.open()
        turns = replace(turns, titles=TitleGenerator(turns.session, model, grace_s=0.001))
        await turns.run("Which ferry?")
        await model.begun.wait()
        assert await turns.run("And back?") == "completed"
        assert turns.session.views.conversation.title == ""
        model.let_go.set()
        # The call that was given up may still be ending; then the second wait is for the one that follows it.
        await turns.titles.finish()
        await turns.titles.finish()
        assert turns.session.views.conversation.title == "Which ferry?"
        assert turns.session.views.spend.outcomes["decision"] == 2

    run(check)


def test_a_model_that_breaks_ends_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("yes"), answers("no"))
        stage.title_model = TitleModel(fails=RuntimeError("broken"))
        turns = await stage.open()
        assert await turns.run("Which ferry?") == "completed"
        await turns.ensure_title()
        assert turns.session.views.conversation.title == ""
        assert await turns.run("And back?") == "completed"

    run(check)


def test_a_session_that_is_over_gives_no_title(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("yes"))
        model = titled(stage, "Ferries")
        model.gate.clear()
        turns = await stage.open()
        await turns.run("Which ferry?")
        await model.begun.wait()
        await turns.session.close()
        model.gate.set()
        await turns.ensure_title()
        assert turns.session.views.conversation.title == ""

    run(check)


def test_a_title_that_somebody_gave_meanwhile_stays(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("yes"))
        model = titled(stage, "Ferries")
        model.gate.clear()
        turns = await stage.open()
        await turns.run("Which ferry?")
        await model.begun.wait()
        await turns.session.append([Titled(text="My own", author="user")], turns.session.views.turns.newest)
        model.gate.set()
        await turns.ensure_title()
        assert turns.session.views.conversation.title == "My own"

    run(check)


@pytest.mark.parametrize("asked", [False, True])
def test_whoever_opens_the_conversation_next_gives_the_title(tmp_path: Path, asked: bool) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("yes"))
        session = (await stage.open()).session
        turn = TurnId("turn_1")
        blocks: list[AnyBlock] = [
            TurnStarted(n=1),
            UserPrompt(text="Which ferry?"),
            Completion(text="At eight. " * 900),
        ]
        await session.append([*blocks, TurnEnded(reason="completed")], turn)
        if asked:
            call = ModelCalled(round=1, model="small:title", request_sha256="0", purpose="title")
            await session.append([call], turn)
        model = titled(stage, "Ferries")
        turns = await stage.reopen(session)
        await turns.ensure_title()
        assert turns.session.views.conversation.title == "Ferries"
        assert model.asked[0].number == 0
        segment = model.asked[0].segments[0]
        assert isinstance(segment, TextSegment)
        assert "| At eight. At eight." in segment.text

    run(check)


class Forgetful(MemoryStore):
    """A store that has lost its payloads."""

    async def read_blob(self, tenant: str, ref: BlobRef) -> bytes:
        raise CodedError("blob_missing", "it is gone")


def test_an_answer_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("yes"))
        stage.store = Forgetful()
        model = titled(stage, "Ferries")
        turns = await stage.open()
        blocks = [TurnStarted(n=1), UserPrompt(text="Which ferry?"), Completion(text="At eight. " * 9_000)]
        await turns.session.append([*blocks, TurnEnded(reason="completed")], TurnId("turn_1"))
        await turns.ensure_title()
        assert turns.session.views.conversation.title == "Ferries"
        segment = model.asked[0].segments[0]
        assert isinstance(segment, TextSegment)
        assert "THE ANSWER" not in segment.text

    run(check)


def test_a_running_turn_and_an_erased_conversation_get_none(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path, answers("yes")).open()
        await turns.session.append([TurnStarted(n=1), UserPrompt(text="Which ferry?")], TurnId("turn_1"))
        await turns.ensure_title()
        assert turns.session.views.conversation.title == ""
        await turns.session.append([TurnEnded(reason="completed"), Erased(by="ann")], TurnId("turn_1"))
        await turns.ensure_title()
        assert turns.session.views.conversation.title == ""

    run(check)


def test_a_title_disturbs_neither_prompts_nor_progress_nor_numbers(tmp_path: Path) -> None:
    async def check() -> None:
        prompts: list[list[int]] = []
        for model in (None, TitleModel("Ferries")):
            stage = TurnHarness(tmp_path, calls("t.look"), answers("yes"), answers("no"))
            stage.title_model = model
            turns = await stage.open()
            await turns.run("Which ferry?")
            await turns.ensure_title()
            await turns.run("And back?")
            views = turns.session.views
            assert (views.spend.outcomes["decision"], views.spend.outcomes.get("title", 0)) == (3, int(bool(model)))
            assert (views.progress.attempts, views.progress.round, views.progress.unseen) == (1, 1, [])
            assert fold(await turns.session.entries(range(1, views.tail + 1))) == views
            prompt = await turns.model_caller.prompt_source.build_prompt(turns.session, AskModel(1, 2, last=False))
            prompts.append([len(one.text) for one in prompt.request.segments[:-1] if isinstance(one, TextSegment)])
        assert prompts[0] == prompts[1]

    run(check)


def test_a_conversation_that_has_a_title_is_not_given_another(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("yes"))
        turns = await stage.open()
        await turns.run("Which ferry?")
        stage.title_model = model = TitleModel("Ferries")
        again = await stage.reopen(turns.session)
        await again.ensure_title()
        assert titles(await blocks_of(again)) == ["Which ferry?"]
        assert model.asked == []

    run(check)
