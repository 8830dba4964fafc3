"""Copied escapes: a line that stands in the file exactly stays; any other line loses the escape of the prompt."""

import pytest
from hypothesis import given

from tests.harness.hostile_lines import hostile
from timeloom.core.patch import PatchError
from timeloom.core.render.copied_file import plan_copied_patch, undo_file_escapes
from timeloom.core.render.copied_text import undo_escapes
from timeloom.core.render.foreign_text.fence import escape
from timeloom.core.render.v2.fence import fence_text

FILE = "[x]\nplain\n~[y]\n"
"""A file with a line that prompts escape, and a line that has such a beginning itself."""


@given(hostile)
def test_a_text_copied_from_a_prompt_is_the_text(text: str) -> None:
    assert undo_escapes(escape(text), 1) == text
    assert undo_escapes(fence_text(text), 2) == text


@pytest.mark.parametrize(
    ("before", "written", "after"),
    [
        (None, "~[x]\n<~channel:a>", "[x]\n<channel:a>"),
        (FILE, "~[x]\nplain\n~[y]\n", "[x]\nplain\n~[y]\n"),
        (FILE, "[x]\nplain\n~~[y]\n", "[x]\nplain\n~[y]\n"),
        (FILE, "~[z]", "[z]"),
    ],
)
def test_the_lines_of_a_file_come_first(before: str | None, written: str, after: str) -> None:
    assert undo_file_escapes(written, before) == after


@pytest.mark.parametrize(
    ("patch", "after"),
    [
        # Copied from the lines of a result, where the file's lines are escaped.
        ("@@ -1,2 +1,2 @@\n ~[x]\n-plain\n+new\n", "[x]\nnew\n~[y]\n"),
        ("@@ -1,2 +1,2 @@\n-~[x]\n+~[z]\n plain\n", "[z]\nplain\n~[y]\n"),
        ("@@ -2,2 +2,2 @@\n plain\n-~~[y]\n+~~[z]\n", "[x]\nplain\n~[z]\n"),
        ("@@ -2,1 +2,2 @@\n plain\n+~[z] <~channel:code>\n", "[x]\nplain\n[z] <channel:code>\n~[y]\n"),
        # Copied from numbered lines, or known: as the file has them.
        ("@@ -1,2 +1,2 @@\n [x]\n-plain\n+new\n", "[x]\nnew\n~[y]\n"),
        ("@@ -2,2 +2,2 @@\n plain\n-~[y]\n+~[z]\n", "[x]\nplain\n~[z]\n"),
        # A whole new text.
        ("~[x]\nplain\n~[y]\n~[z]\n", "[x]\nplain\n~[y]\n[z]\n"),
    ],
)
def test_a_patch_applies_with_and_without_copied_escapes(patch: str, after: str) -> None:
    result, applied = plan_copied_patch(FILE, patch)
    assert result.after == after
    assert plan_copied_patch(FILE, applied)[0].after == after


def test_a_line_in_both_forms_is_taken_as_written_and_else_as_copied() -> None:
    both = "[x]\na\n~[x]\nb\n"
    exact, _ = plan_copied_patch(both, "@@ -3,2 +3,2 @@\n-~[x]\n+c\n b\n")
    assert exact.after == "[x]\na\nc\nb\n"
    copied, applied = plan_copied_patch(both, "@@ -1,2 +1,2 @@\n-~[x]\n+c\n a\n")
    assert copied.after == "c\na\n~[x]\nb\n"
    assert applied == "@@ -1,2 +1,2 @@\n-[x]\n+c\n a\n"


def test_a_patch_that_applies_in_neither_form_names_the_line_as_written() -> None:
    with pytest.raises(PatchError, match="gone"):
        plan_copied_patch(FILE, "@@ -1,2 +1,2 @@\n-~[gone]\n+c\n plain\n")
    with pytest.raises(PatchError):
        plan_copied_patch(None, "")
