"""Token estimates: close for every kind of text, and corrected by reported usage."""

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.tokens import IMAGE_TOKENS, MIN_PDF_TOKENS, Calibration, estimate_data_tokens, estimate_tokens

# The counts are those of the o200k vocabulary.
KNOWN = {
    "english": ("The quick brown fox jumps over the lazy dog, and nobody minds at all.\n" * 20, 320),
    "code": ("def add(one: int, two: int) -> int:\n    return one + two\n\n\n" * 20, 380),
    "json": ('{"sid": 12, "title": "Ferry fares", "url": "https://ferries.example/fares"}\n' * 20, 520),
    "russian": ("Съешь же ещё этих мягких французских булок, да выпей чаю.\n" * 20, 380),
    "chinese": ("我们明天早上坐船去岛上，然后骑自行车环岛一圈。\n" * 20, 380),
    "base64": (base64.b64encode(bytes(range(256)) * 4).decode(), 926),
    "numbers": ("1234.567,89.0123,45\n" * 20, 240),
}


@pytest.mark.parametrize("kind", KNOWN)
def test_an_estimate_is_near_the_count_of_a_tokenizer(kind: str) -> None:
    text, count = KNOWN[kind]
    assert 0.7 * count <= estimate_tokens(text) <= 1.3 * count


COUNTED = {
    r"[A-Za-z]": 229,
    r"(?<=[A-Za-z0-9])(?:[A-Z](?=[a-z0-9])|[0-9](?=[A-Za-z]))": 893,
    r"[0-9]{1,3}": 964,
    r"[!-/:-@\[-^`{-~]+": 861,
    r"(?a:\n\s*)|[ \t]{2,}": 1_843,
    r"[\u2000-\u2fff]": 900,
}


@given(st.text(alphabet="aBc1D2 \t\n\r.Z9_`~\u2014", max_size=40))
def test_an_estimate_weighs_letters_changes_numbers_marks_and_gaps(text: str) -> None:
    weight = sum(each * len(re.findall(pattern, text)) for pattern, each in COUNTED.items())
    assert estimate_tokens(text) == (max(1, weight // 1000) if text else 0)


def test_no_text_has_no_tokens() -> None:
    assert estimate_tokens("") == 0


@given(st.text(max_size=60))
def test_any_text_has_a_token(text: str) -> None:
    assert estimate_tokens(text) >= bool(text)


@given(st.text(max_size=60), st.text(max_size=60))
def test_more_text_has_hardly_fewer_tokens(one: str, two: str) -> None:
    assert estimate_tokens(one + two) >= estimate_tokens(one) - 2


def test_a_lone_surrogate_is_counted() -> None:
    assert estimate_tokens("\ud800") == 1


def test_pictures_count_alike_and_documents_by_size() -> None:
    assert estimate_data_tokens("image/png", 10) == estimate_data_tokens("image/jpeg", 10**6) == IMAGE_TOKENS
    assert estimate_data_tokens("application/pdf", 10) == MIN_PDF_TOKENS
    assert estimate_data_tokens("application/pdf", 10**6) == 40_000


def test_the_first_report_is_taken_and_later_ones_move_it() -> None:
    first = Calibration().observe(1000, 1200)
    assert first.to_model_tokens(1000) == 1200
    assert first.observe(1000, 1000).to_model_tokens(1000) == 1100


def test_many_reports_of_another_model_are_followed() -> None:
    calibration = Calibration()
    for _ in range(20):
        calibration = calibration.observe(1000, 1000)
    for _ in range(20):
        calibration = calibration.observe(1000, 1500)
    assert 1480 <= calibration.to_model_tokens(1000) <= 1500


@pytest.mark.parametrize(("estimated", "reported"), [(499, 900), (1000, 0), (1000, -5)])
def test_what_says_nothing_of_the_text_does_not_calibrate(estimated: int, reported: int) -> None:
    assert Calibration().observe(estimated, reported) == Calibration()


def test_a_broken_report_moves_the_ratio_no_further_than_its_bounds() -> None:
    assert Calibration().observe(1000, 10**9).ratio == 4.0
    assert Calibration().observe(10**9, 1).ratio == 0.25
