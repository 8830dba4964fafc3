"""Reported token counts calibrate estimates call by call, and only for completed calls."""

from collections.abc import Sequence

import pytest
from hypothesis import given

from timeloom.core.blocks import AnyBlock, ModelAnswered, ModelCalled, Usage
from timeloom.core.ids import TurnId
from timeloom.core.timeline import Draft, Entry, to_entry
from timeloom.core.tokens import Calibration
from timeloom.core.view.context.token_calibration import TokenCalibrationView
from timeloom.core.view.views import fold
from timeloom.testing.strategies import timelines

TS = "2026-02-09T02:14:32.676425Z"
USED = Usage(input_tokens=100, cache_read_tokens=1_000, cache_write_tokens=400, output_tokens=70)


def after(*blocks: AnyBlock) -> TokenCalibrationView:
    view = TokenCalibrationView()
    for seq, block in enumerate(blocks, 1):
        view.add(to_entry(Draft(TurnId("turn_1"), TS, block), seq))
    return view


def called(estimated: int = 1_000, model: str = "m") -> ModelCalled:
    return ModelCalled(round=1, model=model, request_sha256="0", estimated_tokens=estimated)


def answered(usage: Usage = USED) -> ModelAnswered:
    return ModelAnswered(round=1, model="m-2026", stop_reason="end", usage=usage)


def test_a_model_is_known_by_the_name_it_is_asked_by() -> None:
    view = after(called(model="openai:m"), answered())
    assert view.to_model_tokens("openai:m", 2_000) == 3_000
    assert view.to_model_tokens("m-2026", 2_000) == 2_000


def test_each_model_has_its_own_count() -> None:
    view = after(called(model="a"), answered(), called(model="b"), answered(Usage(input_tokens=500)))
    assert (view.to_model_tokens("a", 100), view.to_model_tokens("b", 100), view.to_model_tokens("c", 100)) == (
        150,
        50,
        100,
    )


@pytest.mark.parametrize(
    "answer",
    [
        ModelAnswered(round=1, model="m", stop_reason="cut", usage=USED, error="cut"),
        ModelAnswered(round=1, model="m", stop_reason="end", usage=USED, interrupted=True),
        ModelAnswered(round=1, model="m", stop_reason="end", usage=USED, usage_reported=False),
    ],
)
def test_a_call_that_was_not_wholly_counted_teaches_nothing(answer: ModelAnswered) -> None:
    view = after(called(), answer)
    assert view.calibrations == {}
    assert view.last is None
    assert view.asked == {}


def test_a_small_call_and_one_that_nobody_estimated_teach_nothing() -> None:
    view = after(called(20), answered(), called(0), answered(), answered())
    assert view.calibrations == {}
    assert view.last == USED


def test_a_title_is_counted_beside_the_decisions() -> None:
    title = ModelCalled(round=1, model="small", request_sha256="0", purpose="title", estimated_tokens=600)
    given_title = ModelAnswered(round=1, model="s", stop_reason="end", purpose="title", usage=Usage(input_tokens=300))
    view = after(called(), title, answered(), given_title)
    assert view.calibrations == {"m": Calibration(1.5, 1), "small": Calibration(0.5, 1)}
    assert view.last == USED


@given(timelines())
def test_a_calibration_is_that_of_the_calls_that_were_counted(entries: Sequence[Entry]) -> None:
    expected: dict[str, Calibration] = {}
    open_call: ModelCalled | None = None
    for entry in entries:
        match entry.block:
            case ModelCalled() as call:
                open_call = call
            case ModelAnswered(usage=used, usage_reported=True) if open_call:
                before = expected.get(open_call.model, Calibration())
                prompt = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
                expected[open_call.model] = before.observe(open_call.estimated_tokens, prompt)
                open_call = None
            case ModelAnswered():
                open_call = None
            case _:
                pass
    learned = {model: one for model, one in expected.items() if one.samples}
    assert fold(entries).reported.calibrations == learned


def test_numbers_that_no_provider_means_stay_within_bounds() -> None:
    most = 2**53 - 1
    view = after(called(), answered(Usage(input_tokens=most, cache_read_tokens=most)))
    assert view.to_model_tokens("m", 1_000) == 4_000
