"""Properties of patches: a diff of two texts makes the second of the first, and nothing is applied by guess."""

import difflib
import re
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.patch import PatchError, apply_patch, parse_patch, plan_patch

AWKWARD = [
    "", "a", "b", " a", "a ", "\ta", "--- x", "+++ y", "-- x", "++ y", "- ", "-- ", "---", "+++", "@@", "@@ -1 +1 @@",
    "\\ No newline at end of file", "diff --git a/x b/x", "```", "a\x0cb", "a\x85b", "a\u2028b", "a\rb", "\r", "2.40.1",
]  # fmt: skip

endings = st.sampled_from(["\n", "\n", "\r\n"])
lines = st.tuples(st.sampled_from(AWKWARD), endings).map("".join)
tails = st.sampled_from(["", "", "a", "-- x", "x\r"])
texts = st.tuples(st.lists(lines, max_size=25).map("".join), tails).map("".join)
any_texts = st.text(alphabet="ab-+@ \\\r\n\x0c\x85\u2028", max_size=60)
distinct_texts = st.lists(st.integers(0, 10_000), unique=True, min_size=1, max_size=40).map(
    lambda numbers: "".join(f"n{number}\n" for number in numbers)
)


def split(text: str) -> list[str]:
    parts = [part + "\n" for part in text.split("\n")]
    last = parts.pop()[:-1]
    return [*parts, last] if last else parts


def diff(before: str, after: str, context: int = 3) -> str:
    marked = difflib.unified_diff(split(before), split(after), "a/f", "b/f", n=context)
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in marked)


def lf_only(text: str) -> str:
    return text.replace("\r", "")


def crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


def indented(lead: str, text: str) -> str:
    return "".join(lead + line for line in split(text))


@given(before=texts | any_texts, after=texts | any_texts, context=st.integers(1, 5))
def test_the_diff_of_two_texts_makes_the_second_of_the_first(before: str, after: str, context: int) -> None:
    assert apply_patch(before, diff(before, after, context)) == after


@given(before=texts.map(lf_only), after=texts.map(lf_only), context=st.integers(1, 5))
def test_a_diff_in_crlf_of_texts_in_crlf_is_exact(before: str, after: str, context: int) -> None:
    assert apply_patch(crlf(before), crlf(diff(before, after, context))) == crlf(after)
    assert apply_patch(crlf(before), crlf(diff(before, after, context)).removesuffix("\r\n")) == crlf(after)


WRAPPERS: list[Callable[[str], str]] = [
    lambda patch: f"```diff\n{patch}```\n",
    lambda patch: f"Here is the change:\n\n```\n{patch}```\nIt is done.\n",
    lambda patch: f"# The change\n\n{patch}",
    lambda patch: f"```python\nx\n```\n{patch}",
    lambda patch: f"\ufeff{patch}",
    lambda patch: f"Change:\n{indented('    ', patch)}",
    lambda patch: f"Change:\n{indented('> ', patch)}",
    partial(indented, " "),
    partial(indented, "    "),
    partial(indented, "> "),
    lambda patch: patch.partition("\n")[2],
    lambda patch: "Change:\n" + patch.split("\n", 2)[2],
    lambda patch: re.sub(r"^@@ .*", "@@", patch, flags=re.MULTILINE),
    lambda patch: "x.py\n" + re.sub(r"^@@ .*", "@@ ... @@", patch.split("\n", 2)[2], flags=re.MULTILINE),
]


@given(before=texts, after=texts, wrap=st.sampled_from(WRAPPERS))
def test_a_diff_that_is_wrapped_or_shortened_gives_the_right_text_or_none(
    before: str, after: str, wrap: Callable[[str], str]
) -> None:
    if not (patch := diff(before, after)):
        return
    try:
        result = plan_patch(before, wrap(patch))
    except PatchError:
        return
    assert (result.after or "") == after


@given(before=distinct_texts, after=distinct_texts, lead=st.sampled_from(["", "Change:\n", "```\n", "> ", "    "]))
def test_the_lines_of_a_hunk_alone_are_never_content(before: str, after: str, lead: str) -> None:
    body = "".join(line for line in split(diff(before, after)) if not line.startswith(("---", "+++", "@@")))
    if body:
        with pytest.raises(PatchError):
            apply_patch(before, indented(lead, body) if lead.isspace() or lead == "> " else lead + body)


@given(before=texts, data=st.data())
def test_a_small_edit_of_an_awkward_text_survives(before: str, data: st.DataObject) -> None:
    parts = split(before)
    at = data.draw(st.integers(0, len(parts)))
    removed = data.draw(st.integers(0, 2))
    after = "".join([*parts[:at], *data.draw(st.lists(lines, max_size=3)), *parts[at + removed :]])
    assert apply_patch(before, diff(before, after)) == after


@given(before=distinct_texts, above=st.integers(0, 900), data=st.data())
def test_unique_lines_inserted_above_move_the_hunks(before: str, above: int, data: st.DataObject) -> None:
    kept = [line for line in split(before) if data.draw(st.booleans())]
    after = "".join(kept) + "end\n"
    top = "".join(f"top {number}\n" for number in range(above))
    assert apply_patch(top + before, diff(before, after)) == top + after


@given(before=distinct_texts, after=distinct_texts, crlf=st.booleans())
def test_the_file_s_line_ending_wins_over_the_patch_s(before: str, after: str, crlf: bool) -> None:
    patch = diff(before, after)
    if crlf:
        assert apply_patch(before.replace("\n", "\r\n"), patch) == after.replace("\n", "\r\n")
    else:
        assert apply_patch(before, patch.replace("\n", "\r\n")) == after


@given(before=distinct_texts, after=distinct_texts, data=st.data())
def test_a_patch_is_refused_where_one_of_its_lines_is_absent(before: str, after: str, data: st.DataObject) -> None:
    files = parse_patch(before, diff(before, after))
    expected = [line.text for file in files or () for hunk in file.hunks for line in hunk.old]
    if expected:
        gone = data.draw(st.sampled_from(expected))
        changed = "".join(line for line in split(before) if line != gone + "\n") + "other\n"
        with pytest.raises(PatchError):
            apply_patch(changed, diff(before, after))


@given(before=texts, base=texts, after=texts)
def test_whatever_is_applied_stands_in_the_result_and_the_rest_is_untouched(before: str, base: str, after: str) -> None:
    patch = diff(base, after)
    try:
        result = plan_patch(before, patch)
    except PatchError:
        return
    files = parse_patch(before, patch)
    hunks = files[0].hunks if files else ()
    old, new = split(before), split(result.after or "")
    old_at = new_at = 0
    for hunk, placed in zip(hunks, result.hunks, strict=True):
        start, place = placed.old_line - 1, placed.new_line - 1
        assert old[old_at:start] == new[new_at:place]
        old_at, new_at = start + placed.old_count, place + placed.new_count
        assert [bare(line.text) for line in hunk.old] == [bare(line) for line in old[start:old_at]]
        assert [bare(line.text) for line in hunk.new] == [bare(line) for line in new[place:new_at]]
    assert old[old_at:] == new[new_at:]


def bare(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


@given(
    before=texts,
    patch=st.lists(lines | st.sampled_from([" a\n", "-a\n", "+b\n", "--- a/f\n", "+++ b/f\n"])).map("".join),
)
def test_no_text_breaks_the_reader(before: str, patch: str) -> None:
    try:
        apply_patch(before, patch)
    except PatchError as error:
        assert str(error)


@given(before=distinct_texts, after=distinct_texts, numbers=st.tuples(*[st.integers(0, 60)] * 4))
def test_wrong_numbers_give_the_right_result_or_none(before: str, after: str, numbers: tuple[int, ...]) -> None:
    patch = diff(before, after, 2)
    first = patch.find("@@ -")
    line = patch[first:].split("\n", 1)[0]
    spoilt = patch.replace(line, "@@ -{},{} +{},{} @@".format(*numbers), 1) if first >= 0 else patch
    assert apply_patch(before, spoilt) == after
