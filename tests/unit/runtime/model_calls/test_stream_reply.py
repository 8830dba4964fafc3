"""Streaming a reply records its ending, its usage, and whether its cost is known."""

import asyncio
import math
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.harness.replies import answers
from tests.harness.turn import TurnHarness, blocks_of, blocks_of_type, run
from timeloom.core.blocks import Completion, ModelAnswered, ModelCalled, Thinking, TurnEnded, Usage
from timeloom.core.policy.model_retry import MAX_RETRY_AFTER_S
from timeloom.core.policy.next_step import TurnLimits
from timeloom.ports.model import ErrorKind, FinishEvent, ModelError, ModelEvent, ModelRequest, TextPiece, ThinkingPiece
from timeloom.runtime.model_calls.stream_reply import build_outcome

CALL = ModelCalled(round=2, model="openai:m", request_sha256="0", attempt=3, purpose="title")
USED = Usage(input_tokens=5)


def failure(usage: Usage | None = None, *, priced: bool = True) -> ModelError:
    error = ModelError("cut", "it was cut", usage=usage)
    error.priced = priced
    return error


def test_an_outcome_belongs_to_its_call() -> None:
    outcome = build_outcome(CALL, "hi", FinishEvent("max_tokens", USED, "m-2026", usage_reported=False, priced=False))
    assert (outcome.round, outcome.attempt, outcome.purpose, outcome.model) == (2, 3, "title", "m-2026")
    assert (outcome.stop_reason, outcome.usage, outcome.text, outcome.error) == ("max_tokens", USED, "hi", "")
    assert (outcome.usage_reported, outcome.priced, outcome.interrupted) == (False, False, False)
    assert build_outcome(CALL, "", FinishEvent("end", USED)).model == "openai:m"


@pytest.mark.parametrize(
    ("text", "ending", "reported", "priced"),
    [
        ("", failure(), True, True),
        ("half", failure(), False, True),
        ("half", failure(USED), True, True),
        ("half", failure(USED, priced=False), True, False),
        ("", None, False, True),
        ("half", None, False, True),
    ],
)
def test_what_a_failure_cost_is_known_where_somebody_said_so(
    text: str, ending: ModelError | None, reported: bool, priced: bool
) -> None:
    outcome = build_outcome(CALL, text, ending)
    assert (outcome.usage_reported, outcome.priced) == (reported, priced)
    assert (outcome.error, outcome.interrupted) == ("cut" if ending else "steered", bool(text))
    assert outcome.detail == ("it was cut" if ending else "")


class Says:
    """A model that says these things, one list for each call."""

    name = "says"
    window_tokens = 100_000

    def __init__(self, *calls: list[ModelEvent]) -> None:
        self._calls = list(calls)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        for event in self._calls.pop(0):
            yield event

    async def close(self) -> None:
        pass


def test_what_a_provider_calls_thinking_is_kept_apart_and_a_reply_without_its_end_is_cut(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path)
        turns = await stage.open()
        answer: list[ModelEvent] = [ThinkingPiece("so "), ThinkingPiece("be it"), TextPiece(answers("yes"))]
        turns.model_caller.model = Says([TextPiece("half")], [*answer, FinishEvent("end", USED, priced=False)])
        assert await turns.run("go") == "completed"
        blocks = await blocks_of(turns)
        cut, whole = blocks_of_type(blocks, ModelAnswered)
        assert isinstance(cut, ModelAnswered)
        assert isinstance(whole, ModelAnswered)
        assert (cut.error, cut.text, whole.priced) == ("cut", "half", False)
        assert blocks_of_type(blocks, Thinking) == [Thinking(round=1, text="so be it")]
        assert stage.channel_text("thinking") == "so be it"
        assert turns.session.views.spend.total.unknown_costs == 1

    run(check)


class Endless:
    """A model that ignores `max_output_tokens`, or waits between its pieces for longer than anybody listens."""

    name = "endless"
    window_tokens = 100_000

    def __init__(self, piece: str = "", *, waits: bool = False) -> None:
        self._piece, self._waits = piece, waits

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        while True:
            yield TextPiece(self._piece)
            await (asyncio.Event().wait() if self._waits else asyncio.sleep(0))

    async def close(self) -> None:
        pass


def test_an_endless_reply_of_a_foreign_adapter_is_cut(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path, limits=TurnLimits(max_failed_requests=0)).open()
        turns.model_caller.model = Endless("x" * 100_000)
        assert await turns.run("go") == "provider_error"
        (outcome,) = [one for one in await blocks_of(turns) if isinstance(one, ModelAnswered)]
        text = await turns.session.text(outcome.text)
        assert (outcome.error, len(text) > 100_000, len(text) < 10_000_000) == ("cut", True, True)
        assert "max_output_tokens" in outcome.detail

    run(check)


def test_a_call_that_never_ends_is_a_timeout_that_names_its_setting(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path, limits=TurnLimits(max_failed_requests=0)).open()
        turns.model_caller.model, turns.model_caller.call_s = Endless("half", waits=True), 0.05
        assert await turns.run("go") == "provider_error"
        (outcome,) = [one for one in await blocks_of(turns) if isinstance(one, ModelAnswered)]
        assert (outcome.error, outcome.text) == ("timeout", "half")
        assert "timeouts.call_s" in outcome.detail

    run(check)


class Busy:
    """A model whose service asks for this pause before the next request."""

    name = "busy"
    window_tokens = 100_000

    def __init__(self, kind: ErrorKind, wait_s: float) -> None:
        self._kind: ErrorKind = kind
        self._wait_s, self.asked = wait_s, 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.asked += 1
        raise ModelError(self._kind, "come back later", retry_after_s=self._wait_s, usage=USED)
        yield TextPiece("")

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("wait_s", [MAX_RETRY_AFTER_S + 1, 86_400.0, math.inf, math.nan])
def test_a_service_that_asks_to_wait_very_long_ends_the_turn_and_says_so(tmp_path: Path, wait_s: float) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path).open()
        turns.model_caller.model = busy = Busy("rate_limited", wait_s)
        assert await turns.run("go") == "provider_error"
        blocks = await blocks_of(turns)
        (outcome,) = [one for one in blocks if isinstance(one, ModelAnswered)]
        (end,) = [one for one in blocks if isinstance(one, TurnEnded)]
        assert (busy.asked, outcome.error, outcome.usage) == (1, "unavailable", USED)
        assert f"wait {wait_s:g} s" in end.text
        assert "come back later" in end.text

    run(check)


def test_a_short_pause_is_waited_for_and_other_errors_keep_their_kind(tmp_path: Path) -> None:
    async def check() -> None:
        cases: list[tuple[ErrorKind, float, int]] = [("rate_limited", 0.001, 5), ("refused", 86_400.0, 1)]
        for kind, wait_s, asked in cases:
            turns = await TurnHarness(tmp_path).open()
            turns.model_caller.model = busy = Busy(kind, wait_s)
            assert await turns.run("go") == "provider_error"
            outcomes = [one for one in await blocks_of(turns) if isinstance(one, ModelAnswered)]
            assert (busy.asked, {one.error for one in outcomes}) == (asked, {kind})

    run(check)


class Quitting:
    """A model whose every call is cancelled from within."""

    name = "quitting"
    window_tokens = 100_000

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield TextPiece("half")
        raise asyncio.CancelledError

    async def close(self) -> None:
        pass


def test_a_model_that_gives_itself_up_has_failed(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path).open()
        turns.model_caller.model = Quitting()
        assert await turns.run("go") == "provider_error"
        outcomes = blocks_of_type(await blocks_of(turns), ModelAnswered)
        assert {one.error for one in outcomes if isinstance(one, ModelAnswered)} == {"cut"}

    run(check)


@pytest.mark.parametrize(("pieces", "said"), [(("\ud83d", "\ude00"), "\U0001f600"), (("\ud83d", "!"), "\ufffd!")])
def test_halves_of_a_character_from_a_foreign_adapter_do_not_interrupt_a_turn(
    tmp_path: Path, pieces: tuple[str, str], said: str
) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path)
        turns = await stage.open()
        before, after = answers("Hi HERE.").split("HERE")
        events: list[ModelEvent] = [ThinkingPiece("so \ud83d"), TextPiece(before), *map(TextPiece, pieces)]
        turns.model_caller.model = Says([*events, TextPiece(after), FinishEvent("end", USED, "m\ud800")])
        assert await turns.run("go") == "completed"
        blocks = await blocks_of(turns)
        assert [one.text for one in blocks if isinstance(one, Completion)] == [f"Hi {said}."]
        assert [one.text for one in blocks if isinstance(one, Thinking)] == ["so \ufffd"]
        assert stage.channel_text("answer") == f"Hi {said}."

    run(check)


def test_half_a_character_before_a_cut_is_stored_as_its_replacement(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path).open()
        whole: list[ModelEvent] = [TextPiece(answers("yes")), FinishEvent("end", USED)]
        turns.model_caller.model = Says([TextPiece("half \ud83d")], whole)
        assert await turns.run("go") == "completed"
        cut, _ = [one for one in await blocks_of(turns) if isinstance(one, ModelAnswered)]
        assert (cut.error, cut.text) == ("cut", "half \ufffd")

    run(check)
