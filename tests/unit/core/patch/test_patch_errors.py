"""Patches that are refused, each with its code and a message that says what to do."""

import pytest

from timeloom.core.patch import (
    DRIFT_LINES,
    MAX_FILE_CHARS,
    MAX_FILE_LINES,
    MAX_HUNKS,
    MAX_PATCH_CHARS,
    MAX_SEARCHED_LINES,
    PatchError,
    apply_patch,
    plan_patch,
)

FILE = "".join(f"line {number}\n" for number in range(1, 31))
HEAD = "--- a/f.txt\n+++ b/f.txt\n"
BLOCK = "{\n  x\n}\n"


def refused(before: str | None, patch: str) -> tuple[str, str]:
    with pytest.raises(PatchError) as caught:
        plan_patch(before, patch)
    return caught.value.code, str(caught.value)


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        (" \n\t\n", "only white space"),
        (HEAD, "has no hunks: the patch ends there"),
        (HEAD + "this is no hunk\n", "goes on with 'this is no hunk'"),
        (HEAD + "@@ -1 +1 @@\n", "no line that starts with '+' or '-'"),
        (HEAD + "@@ -1,2 +1,2 @@\n line 1\n line 2\n", "no line that starts with '+' or '-'"),
        (HEAD + "@@ -1 +1 @@\n-line 1\n+x\nline 2\n", "line 6 of the patch is 'line 2'"),
        (HEAD + "@@@ -1 -1 +1 @@@\n--line 1\n++x\n", "expected a hunk header"),
        (HEAD + "@@ -1 +1 @@\n\\ No newline at end of file\n-line 1\n", "expected the line that has no newline"),
        (HEAD + "@@ -1 +1 @@\n-line 1\n\\ No newline\n\\ No newline\n+x\n", "expected the line that has no newline"),
        (HEAD + "@@ -1,2 +1,2 @@\n line 1\n\\ No newline\n-line 2\n+x\n", "stands above further lines"),
        (HEAD + "@@ -1,2 +1,2 @@\n+x\n\\ No newline\n+y\n-line 2\n", "stands above further lines"),
        ("--- a/f.txt\n-line 1\n+x\n", "has no hunks"),
        ("+++ b/f.txt\nline 1\n", "has no hunks"),
        ("@@ here\nline 1\n", "no line that starts with"),
        ("diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n", "has no hunks"),
        ("diff --git a/f b/f\nBinary files a/f and b/f differ\n", "has no hunks"),
        ("```diff\n" + HEAD + "@@ -1 +1 @@\n-line 1\n+x\n", "not closed"),
        (
            "```diff\n@@ -1 +1 @@\n-line 1\n+x\n```\n@@ -2 +2 @@\n-line 2\n+y\n",
            "line 6 of the patch stands outside of a fence",
        ),
        ("Look:\n" + HEAD + "@@ -1 +1 @@\n-line 1\n+x\nThat is all.\n", "'That is all.'"),
        ("*** Begin Patch\n*** Update File: f\n@@\n-line 1\n+x\n*** End Patch\n", "an apply_patch envelope"),
        ("*** a/f\n--- b/f\n***************\n*** 1,2 ****\n", "a context diff"),
        ("1c1\n< line 1\n---\n> x\n", "a diff without context"),
        ("f.py\n<<<<<<< SEARCH\nline 1\n=======\nx\n>>>>>>> REPLACE\n", "a search-and-replace block at line 2"),
        ("-line 1\n+x\n", "a hunk without its @@ line"),
        (" line 1\n- line 2\n", "a hunk without its @@ line"),
        ("+import x\n", "a hunk without its @@ line"),
    ],
)
def test_what_looks_like_a_diff_and_is_none_is_never_content(patch: str, words: str) -> None:
    code, message = refused(FILE, patch)
    assert code == "patch_malformed"
    assert words in message


def test_an_empty_patch_makes_no_file() -> None:
    assert refused(None, "")[0] == "patch_malformed"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("@@ -1,2 +1,2 @@\n line one\n-line 2\n+x\n", "expects the line 'line one', which the file does not have"),
        ("@@ -1,2 +1,2 @@\n line 1\n-line  2 \n+x\n", "line 2 differs from it only in white space"),
        ("@@ -1,2 +1,2 @@\n line 1\n-   \n+x\n", "which the file does not have"),
        ("@@ -1,2 +1,2 @@\n line 1\n-line 3\n+x\n", "not together near line 1"),
        ("@@\n line 1\n-line 3\n+x\n", "but not together"),
        ("@@ -29,4 +29,4 @@\n line 29\n-line 30\n+x\n line 1\n line 2\n", "not together near line 29"),
        ("@@ -1,2 +1,2 @@\n line 1\n-line 2\n+x\n\\ No newline at end of file\n", "says that the file ends with it"),
        (
            "@@ -30 +30 @@\n-line 30\n\\ No newline at end of file\n+x\n",
            "no newline at the end of the file, which has one",
        ),
        ("@@ -5000 +5000 @@\n-line 30\n+x\n", f"fits at line 30, which is more than {DRIFT_LINES} lines away near"),
        ("@@ -30 +30 @@\n-" + "x" * 200 + "\n+x\n", "xxx...'"),
    ],
)
def test_a_hunk_whose_lines_are_not_there_is_refused(body: str, words: str) -> None:
    code, message = refused(FILE, HEAD + body)
    assert code == "patch_no_match"
    assert words in message


def test_a_patch_does_not_apply_twice() -> None:
    patch = HEAD + "@@ -1,2 +1,2 @@\n line 1\n-line 2\n+x\n"
    assert refused(apply_patch(FILE, patch), patch)[0] == "patch_no_match"


@pytest.mark.parametrize(
    "body",
    [
        "@@ -1,2 +1,3 @@\n+x\n line 1\n line 2\n",
        "@@ -1 +1,2 @@\n+x\n line 1\n",
        "@@ -1 +1,3 @@\n+x\n line 1\n+y\n",
        "@@ -29,2 +29,3 @@\n line 29\n line 30\n+x\n",
        "@@ -30 +30,2 @@\n line 30\n+x\n",
        "@@\n+x\n line 1\n",
        "@@\n line 30\n+x\n",
        # Without context on one side, in the middle of the file.
        "@@ -15 +15,3 @@\n line 15\n+x\n+line 15 again\n",
        "@@ -15 +15,2 @@\n+x\n line 15\n",
    ],
)
def test_lines_that_a_hunk_adds_at_an_edge_are_not_added_twice(body: str) -> None:
    after = apply_patch(FILE, HEAD + body)
    code, message = refused(after, HEAD + body)
    assert code == "patch_applied"
    assert "stand in the file already" in message


MIDDLE = "1\n2\n3\n"


@pytest.mark.parametrize(
    ("before", "patch"),
    [
        ("{\nx\n}\n" + MIDDLE + "{\n}\n", "@@ -1,2 +1,3 @@\n {\n+x\n }\n"),
        ("{\nx\n}\n;\n" + MIDDLE + "{\n}\n;\n", "@@\n {\n+x\n }\n ;\n"),
        (";\n{\n}\n" + MIDDLE + ";\n{\nx\n}\n", "@@ -7,3 +7,4 @@\n ;\n {\n+x\n }\n"),
        (";\n{\n}\n" + MIDDLE + ";\n{\nx\n}\n", "@@\n ;\n {\n+x\n }\n"),
    ],
)
def test_a_hunk_of_an_edge_that_was_applied_there_does_not_slip_to_a_twin(before: str, patch: str) -> None:
    assert refused(before, HEAD + patch)[0] == "patch_applied"


def test_mixed_line_endings_of_a_patch_must_be_those_of_the_file() -> None:
    assert refused("a\nb\n", HEAD + "@@ -1,2 +1,2 @@\n a\r\n-b\n+c\n")[0] == "patch_no_match"


@pytest.mark.parametrize(
    ("before", "patch"),
    [
        (FILE, "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n"),
        ("a\nb\n", "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"),
        ("", "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"),
        (None, "diff --git a/f b/f\ndeleted file mode 100644\n"),
        (None, HEAD + "@@ -1 +1 @@\n-a\n+b\n"),
        ("", HEAD + "@@ -1,2 +1,2 @@\n \n-a\n+b\n"),
    ],
)
def test_a_file_that_is_there_is_not_created_and_one_that_is_not_is_not_changed(before: str | None, patch: str) -> None:
    assert refused(before, patch)[0] == "patch_no_match"


CHANGE = " {\n-  x\n+  y\n }\n"


@pytest.mark.parametrize(
    "header",
    [
        "@@",
        "@@ -5,3 +5,3 @@",
        "@@ -4,2 +4,2 @@",
        "@@ -4,3 +6,3 @@",
        "@@ -0,3 +0,3 @@",
    ],
)
def test_a_hunk_that_fits_at_several_places_is_refused_unless_its_numbers_hold(header: str) -> None:
    code, message = refused(BLOCK * 3, f"{HEAD}{header}\n{CHANGE}")
    assert code == "patch_ambiguous"
    assert "fits at lines 1 and 4" in message
    assert "more context lines" in message


def test_a_stated_place_is_not_believed_between_hunks_that_moved_apart() -> None:
    before = "first\n" + BLOCK * 3 + "new\nlast\n"
    patch = HEAD + f"@@ -1 +1 @@\n-first\n+FIRST\n@@ -5,3 +5,3 @@\n{CHANGE}@@ -11 +11 @@\n-last\n+LAST\n"
    assert refused(before, patch)[0] == "patch_ambiguous"


def test_lines_without_context_go_into_an_empty_file_only() -> None:
    patch = HEAD + "@@ -0,0 +1 @@\n+a\n"
    assert apply_patch("", patch) == "a\n"
    assert refused(FILE, patch)[0] == "patch_ambiguous"
    assert refused("", patch + "@@ -0,0 +2 @@\n+b\n")[0] == "patch_ambiguous"


@pytest.mark.parametrize(
    "body",
    [
        "@@ -3,3 +3,3 @@\n line 3\n-line 4\n+x\n line 5\n@@ -5,2 +5,2 @@\n line 5\n-line 6\n+y\n",
        "@@ -4 +4 @@\n-line 4\n+x\n@@ -4 +4 @@\n-line 4\n+y\n",
        "@@ -9 +9 @@\n-line 9\n+x\n@@ -4 +4 @@\n-line 4\n+y\n",
        "@@\n-line 9\n+x\n@@\n-line 4\n+y\n",
    ],
)
def test_hunks_that_share_lines_or_are_out_of_order_are_refused(body: str) -> None:
    assert refused(FILE, HEAD + body)[0] == "patch_overlap"


def test_a_hunk_that_overlaps_does_not_slip_to_a_later_twin() -> None:
    patch = HEAD + f"@@ -1,3 +1,3 @@\n{CHANGE}@@ -1,3 +1,3 @@\n{CHANGE}"
    assert refused(BLOCK + "other\n" + BLOCK, patch)[0] == "patch_overlap"


def test_several_files_are_refused_with_their_names() -> None:
    one = HEAD + "@@ -1 +1 @@\n-line 1\n+x\n"
    code, message = refused(FILE, one + one.replace("f.txt", "g.txt") + "diff --git a/h b/h\nnew file mode 100644\n")
    assert code == "patch_several_files"
    assert "3 files ('f.txt', 'g.txt', 'a file without a name')" in message


@pytest.mark.parametrize(
    ("before", "patch"),
    [
        ("", "x" * (MAX_PATCH_CHARS + 1)),
        ("x" * (MAX_FILE_CHARS + 1), "y"),
        ("\n" * MAX_FILE_LINES, "y"),
        ("x\n", HEAD + "@@ -1 +1 @@\n-x\n+y\n" * (MAX_HUNKS + 1)),
        ("x\n" * (MAX_SEARCHED_LINES // MAX_HUNKS + 1), HEAD + "@@\n-x\n+y\n" * MAX_HUNKS),
    ],
)
def test_what_is_too_large_is_refused(before: str, patch: str) -> None:
    assert refused(before, patch)[0] == "patch_too_large"


def test_hunks_as_many_as_allowed_are_applied() -> None:
    before = "".join(f"{number}\n" for number in range(MAX_HUNKS))
    patch = "".join(f"@@ -{number + 1} +{number + 1} @@\n-{number}\n+{number}!\n" for number in range(MAX_HUNKS))
    assert apply_patch(before, patch) == before.replace("\n", "!\n")
