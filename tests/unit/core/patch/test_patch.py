"""Applying a patch to a file."""

import difflib

import pytest

from timeloom.core.patch import PlacedHunk, apply_patch, parse_patch, plan_diff, plan_patch

LINES = [f"line {number}\n" for number in range(1, 31)]
FILE = "".join(LINES)
HEAD = "--- a/f.txt\n+++ b/f.txt\n"
HUNK_4 = " line 3\n-line 4\n+LINE 4\n line 5\n"
DONE_4 = FILE.replace("line 4\n", "LINE 4\n")
TWO_HUNKS = HEAD + "@@ -3,3 +3,3 @@\n" + HUNK_4 + "@@ -19,3 +19,4 @@\n line 19\n-line 20\n+LINE 20\n+more\n line 21\n"
DONE_TWO = DONE_4.replace("line 20\n", "LINE 20\nmore\n")


def test_several_hunks_are_applied() -> None:
    assert apply_patch(FILE, TWO_HUNKS) == DONE_TWO


@pytest.mark.parametrize(
    "header",
    [
        "@@ -3,3 +3,3 @@",
        "@@ -3,3 +3,3 @@ def section():",
        "@@ -9,3 +9,3 @@",
        "@@ -3,9 +3,1 @@",
        "@@ -3,1 +3,1 @@",
        "@@ -0,0 +0,0 @@",
        "@@ -1 +1 @@",
        "@@ -3,3 +3,3",
        "@@",
        "@@ @@",
        "@@ ... @@",
        "@@ def section(): @@",
    ],
)
def test_wrong_or_missing_numbers_do_not_stop_a_hunk_that_fits_at_one_place(header: str) -> None:
    assert apply_patch(FILE, f"{HEAD}{header}\n{HUNK_4}") == DONE_4


@pytest.mark.parametrize(
    "head",
    [
        "",
        "\n\n",
        "--- a/old name.txt\t2024-01-01 10:00:00\n+++ b/other.txt\t2024-01-02 10:00:00\n",
        "--- f.txt\n+++ f.txt\n",
        "--- \n+++ \n",
        "---\n+++\n",
        "--- a/f.txt\n",
        "+++ b/f.txt\n",
        "diff --git a/f.txt b/f.txt\nindex 12ab..34cd 100644\n--- a/f.txt\n+++ b/f.txt\n",
        "diff --git a/f.txt b/f.txt\nold mode 100644\nnew mode 100755\n--- a/f.txt\n+++ b/f.txt\n",
        "diff --git a/f b/g\nsimilarity index 90%\nrename from f\nrename to g\n--- a/f\n+++ b/g\n",
        "Index: f.txt\n===================================================================\n--- f.txt\n+++ f.txt\n",
        "diff -u f.txt g.txt\n--- f.txt\n+++ g.txt\n",
    ],
)
def test_the_names_in_the_header_do_not_matter(head: str) -> None:
    assert apply_patch(FILE, f"{head}@@ -3,3 +3,3 @@\n{HUNK_4}") == DONE_4


def test_lines_with_marks_right_below_the_names_are_a_hunk() -> None:
    assert apply_patch(FILE, HEAD + HUNK_4) == DONE_4


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("```diff\n", "```\n"),
        ("```\n", "```"),
        ("\n~~~patch\n\n", "~~~\n\n"),
        ("Here is the change:\n\n```diff\n", "```\nIt makes line 4 loud.\n"),
        ("From 1234 Mon Sep 17\nSubject: [PATCH] loud\n---\n f.txt | 2 +-\n\n", "-- \n2.40.1\n\n"),
        ("", "\n\n"),
        ("", "    "),
    ],
)
def test_a_fence_or_text_around_the_diff_is_left_aside(opening: str, closing: str) -> None:
    assert apply_patch(FILE, f"{opening}{HEAD}@@ -3,3 +3,3 @@\n{HUNK_4}{closing}") == DONE_4


def test_hunks_follow_lines_that_were_inserted_above() -> None:
    shifted = "".join(f"top {number}\n" for number in range(7))
    result = plan_patch(shifted + FILE, TWO_HUNKS)
    assert result.after == shifted + DONE_TWO
    assert result.hunks == (PlacedHunk(10, 3, 10, 3, 7), PlacedHunk(26, 3, 26, 4, 7))


def test_a_hunk_that_fits_at_several_places_is_put_where_consistent_numbers_say() -> None:
    block = "{\n  x\n}\n"
    patch = HEAD + "@@ -4,3 +4,3 @@\n {\n-  x\n+  y\n }\n"
    assert apply_patch(block * 3, patch) == block + "{\n  y\n}\n" + block


def test_a_hunk_that_fits_at_several_places_moves_with_the_hunks_around_it() -> None:
    block = "{\n  x\n}\n"
    before = "first\n" + block * 3 + "last\n"
    after = "FIRST\n" + block + "{\n  y\n}\n" + block + "LAST\n"
    patch = HEAD + "@@ -1 +1 @@\n-first\n+FIRST\n@@ -5,3 +5,3 @@\n {\n-  x\n+  y\n }\n@@ -11 +11 @@\n-last\n+LAST\n"
    assert apply_patch(before, patch) == after
    assert apply_patch("new\n" + before, patch) == "new\n" + after


def test_empty_context_lines_may_have_lost_their_space() -> None:
    assert apply_patch("a\n\nb\n\n\nc\n", HEAD + "@@ -1,6 +1,6 @@\n a\n\n-b\n+B\n\n\n c\n") == "a\n\nB\n\n\nc\n"
    assert apply_patch("a\n\nb\n", HEAD + "@@\n a\n\n-b\n+B\n\n\n") == "a\n\nB\n"


def test_a_context_line_led_by_a_tab_may_have_lost_its_space() -> None:
    assert apply_patch("if x:\n\ty\n", HEAD + "@@ -1,2 +1,2 @@\n-if x:\n+if z:\n\ty\n") == "if z:\n\ty\n"


def test_a_patch_without_its_last_newline_is_complete() -> None:
    assert apply_patch("a\nb\n", HEAD + "@@ -1,2 +1,2 @@\n a\n-b\n+c") == "a\nc\n"
    assert apply_patch("a\r\nb\r\n", HEAD + "@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+c") == "a\r\nc\r\n"


def test_a_file_keeps_its_own_line_endings() -> None:
    patch = HEAD + "@@ -1,3 +1,4 @@\n a\n-b\n+B\n+B2\n c\n"
    assert apply_patch("a\r\nb\r\nc\r\n", patch) == "a\r\nB\r\nB2\r\nc\r\n"
    assert apply_patch("a\nb\nc\n", patch.replace("\n", "\r\n")) == "a\nB\nB2\nc\n"
    assert apply_patch("a\r\nb\nc\n", patch) == "a\r\nB\nB2\nc\n"
    assert apply_patch("b\r\nc\r\n", HEAD + "@@ -1,2 +1,3 @@\n+a\n b\n c\n") == "a\r\nb\r\nc\r\n"


def test_untouched_lines_keep_mixed_endings() -> None:
    before = "a\r\nb\nc\r\nd\ne\r\n"
    assert apply_patch(before, HEAD + "@@ -2,3 +2,3 @@\n b\n-c\n+C\n d\n") == "a\r\nb\nC\r\nd\ne\r\n"


def test_a_diff_that_changes_line_endings_does_so() -> None:
    assert apply_patch("a\r\nb\r\n", HEAD + "@@ -1,2 +1,2 @@\n-a\r\n+a\n b\r\n") == "a\nb\r\n"


def test_a_file_without_line_endings_takes_those_of_the_patch() -> None:
    patch = HEAD + "@@ -1 +1,2 @@\r\n-a\r\n\\ No newline at end of file\r\n+a\r\n+b\r\n"
    assert apply_patch("a", patch) == "a\r\nb\r\n"


@pytest.mark.parametrize(
    ("before", "body", "after"),
    [
        ("a\nb", " a\n-b\n\\ No newline at end of file\n+c\n", "a\nc\n"),
        ("a\nb\n", " a\n-b\n+c\n\\ No newline at end of file\n", "a\nc"),
        ("a\nb", " a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n", "a\nc"),
        ("a\nb", "-a\n+x\n b\n\\ No newline at end of file\n", "x\nb"),
        ("a\nb", "-a\n+x\n b\n", "x\nb"),
        ("a\nb", " a\n-b\n+c\n", "a\nc"),
        ("a\nb", " a\n+c\n-b\n", "a\nc"),
        ("a\nb", "-a\n-b\n", ""),
        ("a\nb", " a\n b\n+c\n", "a\nb\nc"),
        ("a\r\nb", " a\n b\n+c\n", "a\r\nb\r\nc"),
        ("a\nb", " a\n-b\n", "a\n"),
        ("a\r\nb", " a\n-b\n\\ No newline at end of file\n+c\n", "a\r\nc\r\n"),
        ("a\nb", " a\r\n-b\r\n\\ No newline at end of file\r\n+c\r\n\\ No newline at end of file\r\n", "a\nc"),
        ("b", "-b\n+c\n", "c"),
        ("a\r\nb\r\n", " a\r\n-b\r\n+c\r\n\\ No newline at end of file\r\n", "a\r\nc"),
        ("a\r\nb\r\n", " a\r\n-b\r\n+c\r\n\\ No newline at end of file", "a\r\nc\r"),
        ("a\r\nb\r\n", " a\r\n-b\r\n+c\r\n\\ No newline at end of file\n", "a\r\nc\r"),
        ("b", "-b\r\n\\ No newline at end of file\r\n+c\r\n\\ No newline at end of file\r\n", "c"),
    ],
)
def test_the_final_newline_is_as_the_patch_says_or_as_it_was(before: str, body: str, after: str) -> None:
    assert apply_patch(before, f"{HEAD}@@\n{body}") == after


def test_a_patch_in_crlf_may_end_with_the_mark_of_a_missing_newline() -> None:
    patch = "@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+c\r\n\\ No newline at end of file"
    assert apply_patch("a\r\nb\r\n", patch) == "a\r\nc"


def test_lines_end_at_line_feeds_only() -> None:
    before = "a\x0cb\x0b\x85c\u2028d\u2029\x1c\ne\rf\ng\n"
    patch = HEAD + "@@ -1,3 +1,3 @@\n a\x0cb\x0b\x85c\u2028d\u2029\x1c\n e\rf\n-g\n+h\n"
    assert apply_patch(before, patch) == before.replace("g", "h")


def test_counts_tell_content_that_looks_like_a_header() -> None:
    before = "-- x\nb\n-- \n"
    patch = HEAD + "@@ -1,3 +1,3 @@\n--- x\n+++ y\n b\n--- \n+@@ -1 +1 @@\n"
    assert apply_patch(before, patch) == "++ y\nb\n@@ -1 +1 @@\n"


def test_a_new_file_is_created() -> None:
    patch = "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n"
    for before in (None, ""):
        result = plan_patch(before, patch)
        assert (result.kind, result.after) == ("created", "a\nb\n")
        assert result.hunks == (PlacedHunk(1, 0, 1, 2, 0),)
    assert apply_patch("", patch) == "a\nb\n"
    assert plan_patch("", "@@ -0,0 +1 @@\n+a\n").kind == "patched"
    assert apply_patch("", patch.replace("\n", "\r\n")) == "a\r\nb\r\n"


def test_empty_lines_of_a_new_file_may_have_lost_their_mark() -> None:
    assert apply_patch("", "--- /dev/null\n+++ b/f\n@@ -0,0 +1,3 @@\n+a\n\n+b\n\n") == "a\n\nb\n"


def test_an_empty_file_is_created_and_deleted() -> None:
    assert plan_patch(None, "diff --git a/f b/f\nnew file mode 100644\nindex 0..e69de29\n").after == ""
    deleted = plan_patch("", "diff --git a/f b/f\ndeleted file mode 100644\nindex e69de29..0\n")
    assert (deleted.kind, deleted.after) == ("deleted", None)


def test_a_deleted_file_is_told_from_an_emptied_one() -> None:
    patch = "--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n"
    assert plan_patch("a\nb\n", patch).kind == "deleted"
    assert plan_patch("a\nb\n", patch).after is None
    assert apply_patch("a\nb\n", patch) == ""
    emptied = plan_patch("a\nb\n", patch.replace("/dev/null", "b/f"))
    assert (emptied.kind, emptied.after) == ("patched", "")


@pytest.mark.parametrize(
    "text",
    [
        "new text\n",
        "no newline",
        "---\ntitle: x\n---\n\nBody\n",
        "--- # a YAML document\nkey: value\n",
        "--- \n- a\n+ b\n",
        "+++\ntitle = 'x'\n+++\nBody\n",
        "- a\n- b\n  - c\n",
        "+ a\n+ b\n",
        "- a\n+ b\n* c\n",
        "-1\n+2\n+ 3\n",
        "-r one.txt\n-r two.txt\n",
        "@@class_variable = 1\n",
        "```python\nprint()\n```\ntext\n",
        "```\n",
        "*** bold ***\n",
        "3c3\nis a chord\n",
        "+\n\n-\n",
        "\tindented\n+x\n",
    ],
)
def test_a_text_without_diff_syntax_is_the_new_content(text: str) -> None:
    assert apply_patch("old\n", text) == text
    assert apply_patch("", text) == text
    assert plan_patch("old\n", text).kind == "replaced"
    assert plan_patch(None, text).kind == "created"


def test_a_document_that_shows_a_diff_is_replaced_by_its_next_version() -> None:
    document = "# Diffs\n\n```diff\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n```\n"
    assert apply_patch(document, "# About diffs\n" + document) == "# About diffs\n" + document
    conflict = "A block starts with\n<<<<<<< SEARCH\n"
    assert apply_patch(conflict, conflict + "and so on\n") == conflict + "and so on\n"


def test_an_empty_patch_changes_nothing() -> None:
    assert apply_patch("a\n", "") == "a\n"
    assert plan_patch("a\n", "").kind == "unchanged"


def test_a_patch_of_several_files_is_applied_file_by_file() -> None:
    patch = TWO_HUNKS + "diff --git a/g b/h\nrename from g\nrename to h\n--- a/g\n+++ b/h\n@@ -1 +1 @@\n-x\n+y\n"
    files = parse_patch(None, patch)
    assert files is not None
    assert [(file.old_path, file.new_path) for file in files] == [("f.txt", "f.txt"), ("g", "h")]
    assert plan_diff(FILE, files[0]).after == DONE_TWO
    assert plan_diff("x\n", files[1]).after == "y\n"
    assert parse_patch("old\n", "new\n") is None


def test_wrong_counts_do_not_hide_the_next_file() -> None:
    patch = TWO_HUNKS.replace("+19,4", "+19,9") + TWO_HUNKS.replace("f.txt", "g.txt")
    files = parse_patch(None, patch)
    assert files is not None
    assert [file.new_path for file in files] == ["f.txt", "g.txt"]


def test_a_long_file_of_equal_lines_is_patched() -> None:
    before = "x\n" * 100_000
    lines = before.splitlines(keepends=True)
    diff = HEAD + "@@ -40001,20001 +40001,20001 @@\n" + " x\n" * 20_000 + "-x\n+y\n"
    assert apply_patch(before, diff) == "".join([*lines[:60_000], "y\n", *lines[60_001:]])


def test_the_standard_library_s_diff_is_applied() -> None:
    after = FILE.replace("line 2\n", "").replace("line 15\n", "new\nlines\n") + "end\n"
    diff = difflib.unified_diff(LINES, after.splitlines(keepends=True))
    assert apply_patch(FILE, "".join(diff)) == after
