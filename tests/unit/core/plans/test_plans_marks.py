"""Step marks are found where a line begins with one, and nowhere else."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.plans.marks import MARKERS, MAX_MARK_CHARS, MAX_MARK_NUMBER, StepMark, find_marks, marker
from timeloom.core.plans.snapshot import MAX_STEPS, StepStatus

STATUSES: tuple[StepStatus, ...] = get_args(StepStatus)
NUMBERS = st.integers(1, MAX_MARK_NUMBER)
HOSTILE = st.text(st.sampled_from("✓✗…□✅❌.[]()0123456789-*+• \t\r\n`~\ufe0f\u2028ax\ud800"), max_size=200)


def statuses(notes: str) -> dict[int, StepStatus]:
    return {mark.step: mark.status for mark in find_marks(notes)}


@pytest.mark.parametrize(
    ("line", "step", "status"),
    [
        ("✓ [1] collect metrics", 1, "done"),
        ("✗ [2] compare trends", 2, "failed"),
        ("… [3]", 3, "in_progress"),
        ("□ [4] draft answer", 4, "pending"),
        ("✓ 1. Locate sources", 1, "done"),
        ("… 2. Draft report — in progress", 2, "in_progress"),
        ("□ 1) Search top restaurants", 1, "pending"),
        ("✗ 50.", 50, "failed"),
        ("✓[7]: yes", 7, "done"),
        ("✓7. yes", 7, "done"),
        ("\t - ✓ [1] in a list", 1, "done"),
        ("* … 2. in a list", 2, "in_progress"),
        ("• □ [3]", 3, "pending"),
        ("✓ [1]\r", 1, "done"),
        ("✓ 1.\r", 1, "done"),
    ],
)
def test_a_mark_is_a_sign_and_a_number_at_the_start_of_a_line(line: str, step: int, status: StepStatus) -> None:
    assert find_marks(f"So far:\n{line}\nand on.") == (StepMark(step, status, line.strip()),)


@pytest.mark.parametrize(
    ("spellings", "status"),
    [
        ("✔ ✅ ☑ ✔️ ☑️", "done"),
        ("✘ ❌ ✖ ✖️", "failed"),
        ("...", "in_progress"),
        ("☐", "pending"),
    ],
)
def test_a_few_other_spellings_of_the_signs_count(spellings: str, status: StepStatus) -> None:
    for spelling in spellings.split(" "):
        assert statuses(f"{spelling} [1] step") == {1: status}
        assert statuses(f"{spelling} 1. step") == {1: status}


@pytest.mark.parametrize(
    "line",
    [
        "done ✓ [1]",
        "Step ✓ 1. is over",
        "> ✓ [1] a quotation",
        "- - ✓ [1] two bullets",
        "-✓ [1] a bullet that touches",
        "✓ 1 sources found",
        "✓ 1.5 GB loaded",
        "✓ 3.11 installed",
        "✓ 1)next",
        "✓ [0] none",
        "✓ [01]",
        "✓ [100] too many",
        "✓ 2024. a good year",
        "✓ [1-3]",
        "✓ [ 1 ]",
        "✓ [x]",
        "✓ [١] a digit of another script",
        "✓✓ [1]",
        "✓ ✓ [1]",
        "[x] 1. a task list",
        "- [x] [1] a task list",
        "v [1]",
        ".. [1]",
        ".... [1]",
        "✓",
        "",
    ],
)
def test_what_only_resembles_a_mark_is_text(line: str) -> None:
    assert find_marks(line) == ()


def test_the_last_mark_of_a_step_counts_and_gives_the_order() -> None:
    marks = find_marks("… [1] reading\n✓ [2] done\n✗ [1] nothing there")
    assert marks == (StepMark(2, "done", "✓ [2] done"), StepMark(1, "failed", "✗ [1] nothing there"))


@pytest.mark.parametrize(
    "notes",
    [
        "```\n✓ [1]\n```",
        "```text\n✓ [1]\n```\n",
        "~~~ a ` tick\n✓ [1]\n```\n✓ [1]\n~~~",
        "````\n```\n✓ [1]\n````",
        "- ```\n  ✓ [1]\n  ```",
        "```\n✓ [1]\nnever closed",
        "```\n```text\n✓ [1]\n```",
    ],
)
def test_fenced_code_marks_nothing(notes: str) -> None:
    assert find_marks(notes) == ()


@pytest.mark.parametrize(
    "notes", ["```\ncode\n```\n✓ [1]", "~~~\n~~~~ \n✓ [1]", "```one line```\n✓ [1]", "``\n✓ [1]", "    ✓ [1]"]
)
def test_what_stands_outside_fences_counts(notes: str) -> None:
    assert statuses(notes) == {1: "done"}


def test_only_a_line_feed_begins_a_line() -> None:
    assert find_marks("text\u2028✓ [1]\x0b✓ [2]\r✓ [3]") == ()


def test_a_very_long_line_is_kept_in_part() -> None:
    (mark,) = find_marks("✓ [1] " + "x" * 100_000)
    assert len(mark.line) == MAX_MARK_CHARS


def test_notes_without_end_leave_one_mark_per_number() -> None:
    marks = find_marks("\n".join(f"✓ [{n % 120}] again" for n in range(5_000)))
    assert [mark.step for mark in sorted(marks, key=lambda mark: mark.step)] == list(range(1, MAX_MARK_NUMBER + 1))


def test_every_step_of_the_longest_plan_can_be_marked() -> None:
    assert MAX_MARK_NUMBER >= MAX_STEPS


@given(HOSTILE | st.text())
def test_any_text_is_read_without_an_error(notes: str) -> None:
    marks = find_marks(notes)
    assert len({mark.step for mark in marks}) == len(marks)
    for mark in marks:
        assert 1 <= mark.step <= MAX_MARK_NUMBER
        assert mark.line in notes


@given(HOSTILE | st.text())
def test_reading_the_kept_lines_again_gives_the_same_marks(notes: str) -> None:
    marks = find_marks(notes)
    assert find_marks("\n".join(mark.line for mark in marks)) == marks


@given(st.dictionaries(NUMBERS, st.sampled_from(STATUSES)), st.sampled_from(["{} [{}] x", "{} {}. x", "  - {} {}) x"]))
def test_what_is_written_with_a_marker_reads_back(marked: dict[int, StepStatus], form: str) -> None:
    notes = "\n".join(form.format(marker(status), step) for step, status in marked.items())
    assert statuses(notes) == marked


def test_every_status_has_a_sign_of_its_own() -> None:
    assert {marker(status) for status in STATUSES} == set(MARKERS.values())
    assert len(set(MARKERS.values())) == len(STATUSES)
