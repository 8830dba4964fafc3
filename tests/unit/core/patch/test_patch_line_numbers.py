"""Pasted line numbers are refused, numbered content is not."""

import pytest

from timeloom.core.patch import PatchError, apply_patch

CODE = [
    "import os",
    "",
    "def f(x):",
    "    if x:",
    "        return os.sep",
    "    return x",
    "",
    "print(f(1))",
    "f(2)",
    "f(3)",
]
FILE = "".join(line + "\n" for line in CODE)
HEAD = "--- a/f.py\n+++ b/f.py\n"
STYLES = [
    "{:>4} | {}",
    "{} | {}",
    "{}|{}",
    "{}: {}",
    "{}:{}",
    "{:>6}→{}",
    "{}→{}",
    "{:>6}\t{}",
    "{}\t{}",
    "{} │ {}",
    "L{}: {}",
]


def code_of(before: str, patch: str) -> str:
    with pytest.raises(PatchError) as caught:
        apply_patch(before, patch)
    assert caught.value.code != "patch_line_numbers" or "display only" in str(caught.value)
    return caught.value.code


def numbered(style: str, lines: list[str], first: int = 1) -> list[str]:
    return [style.format(first + index, line) for index, line in enumerate(lines)]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("before", [FILE, ""])
def test_a_numbered_replacement_is_refused(style: str, before: str) -> None:
    assert code_of(before, "\n".join(numbered(style, CODE)) + "\n") == "patch_line_numbers"


@pytest.mark.parametrize("style", STYLES)
def test_a_numbered_replacement_of_flat_text_is_known_by_the_file(style: str) -> None:
    prose = ["One line.", "Another line.", "A third.", "The last."]
    patch = "\r\n".join(numbered(style, [*prose[:3], "A new one."]))
    assert code_of("\r\n".join(prose), patch) == "patch_line_numbers"


@pytest.mark.parametrize("style", STYLES)
def test_a_hunk_with_numbered_context_is_refused(style: str) -> None:
    three, four, five = numbered(style, CODE[2:5], 3)
    assert code_of(FILE, f"{HEAD}@@ -3,3 +3,3 @@\n {three}\n-{four}\n+{four} and y\n {five}\n") == "patch_line_numbers"


@pytest.mark.parametrize("style", STYLES)
def test_numbers_in_front_of_the_marks_are_refused(style: str) -> None:
    body = "\n".join(numbered(style, [" def f(x):", "-    if x:", "+    if not x:"], 3))
    assert code_of(FILE, f"{HEAD}@@ -3,2 +3,2 @@\n{body}\n") == "patch_line_numbers"


@pytest.mark.parametrize("style", STYLES)
def test_numbered_added_lines_are_refused_where_they_stand_at_their_number(style: str) -> None:
    added = "".join(f"+{line}\n" for line in numbered(style, ["    x += 1", "    y = x"], 4))
    assert code_of(FILE, f"{HEAD}@@ -3,2 +3,4 @@\n def f(x):\n{added}     if x:\n") == "patch_line_numbers"


@pytest.mark.parametrize("style", ["{} | {}", "{:>6}→{}", "{} │ {}"])
def test_one_added_line_with_its_number_is_refused(style: str) -> None:
    added = style.format(4, "    if not x:")
    assert code_of(FILE, f"{HEAD}@@ -3,2 +3,2 @@\n def f(x):\n-    if x:\n+{added}\n") == "patch_line_numbers"


@pytest.mark.parametrize("style", ["{:>4} | {}", "{} | {}", "{} │ {}", "{}: {}"])
def test_added_lines_that_look_displayed_are_refused_wherever_they_stand(style: str) -> None:
    added = "".join(f"+{line}\n" for line in numbered(style, ["while x:", "    x -= 1", "x += 1"], 40))
    assert code_of(FILE, f"{HEAD}@@ -3,2 +3,5 @@\n def f(x):\n{added}     if x:\n") == "patch_line_numbers"


def test_numbers_on_a_new_file_are_refused() -> None:
    body = "".join(f"+{line}\n" for line in numbered("{:>4}\t{}", CODE))
    assert code_of("", f"--- /dev/null\n+++ b/f.py\n@@ -0,0 +1,10 @@\n{body}") == "patch_line_numbers"


@pytest.mark.parametrize(
    "text",
    [
        "1. one\n2. two\n3. three\n",
        "1) one\n2) two\n3) three\n",
        "1\tAlice\t30\n2\tBob\t25\n3\tEve\t41\n",
        "1\tAlice\n2\tBob\n3\tEve\n",
        "1,Alice\n2,Bob\n3,Eve\n",
        "1|Alice|30\n2|Bob|25\n3|Eve|41\n",
        "1 | Alice | 30\n2 | Bob | 25\n3 | Eve | 41\n",
        "1: one\n2: two\n3: three\n",
        "  1: one\n  2: two\n  3: three\n",
        "10:30 meeting\n10:45 break\n11:00 lunch\n",
        "1: one\n2: two\n",
        "1→one\n2→two\n",
        "7: a\n3: b\n  5: c\n9: d\n",
        "1: a\n2| b\n   3: c\n",
        "1→ one\nis not like\nthe others\n2→ two\n3→ three\n",
        "1:\n2:\n3:\n",
    ],
)
def test_numbered_content_is_no_display(text: str) -> None:
    assert apply_patch("old\n", text) == text
    assert apply_patch("", text) == text


def test_a_file_that_is_numbered_itself_takes_numbered_lines() -> None:
    before = "".join(f"{number:>4} | {line}\n" for number, line in enumerate(CODE, 1))
    assert apply_patch(before, before + "  11 | f(4)\n") == before + "  11 | f(4)\n"
    patch = HEAD + "@@ -10 +10,2 @@\n   10 | f(3)\n+  11 | f(4)\n"
    assert apply_patch(before, patch) == before + "  11 | f(4)\n"


def test_a_row_of_data_may_have_the_number_of_its_line() -> None:
    assert apply_patch("a\nb\n", HEAD + "@@ -1,2 +1,3 @@\n a\n b\n+3: c\n") == "a\nb\n3: c\n"
    assert (
        apply_patch("1\ta\n2\tb\n", HEAD + "@@ -1,2 +1,4 @@\n 1\ta\n 2\tb\n+3\tc\n+4\td\n")
        == "1\ta\n2\tb\n3\tc\n4\td\n"
    )


def test_added_numbers_that_are_not_the_place_are_content() -> None:
    after = "top\n7: a\n8: b\nend\n"
    assert apply_patch("top\nend\n", HEAD + "@@ -1,2 +1,4 @@\n top\n+7: a\n+8: b\n end\n") == after
