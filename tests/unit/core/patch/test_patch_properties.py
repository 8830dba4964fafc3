"""Properties of patches: a diff of two texts makes the second of the first, and nothing is applied by guess."""

import difflib
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from timeloom.core.patch import PatchError, apply_patch, parse_patch, plan_patch
from timeloom.core.patch.types import Hunk

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


class Anchored(NamedTuple):
    """Where a hunk of a diff may be put: `git apply` and GNU patch tie hunks at the edges of a file to them."""

    at_beginning: bool
    at_end: bool


def as_git(hunk: Hunk) -> Anchored:
    return Anchored((hunk.old_start or 0) <= 1, hunk.lines[-1].tag != " ")


def as_gnu(hunk: Hunk) -> Anchored:
    tags = "".join(line.tag for line in hunk.lines)
    leading, trailing = len(tags) - len(tags.lstrip(" ")), len(tags) - len(tags.rstrip(" "))
    return Anchored(leading < trailing and (hunk.old_start or 0) <= 1, trailing < leading)


def applied_nearest(text: str, hunks: Sequence[Hunk], anchored: Callable[[Hunk], Anchored]) -> str | None:
    """Return what a tool that puts each hunk at the nearest allowed place makes of the text; None if it refuses."""
    file, drift, done = split(text), 0, 0
    for hunk in hunks:
        old = [line.text + "\n" * line.newline for line in hunk.old]
        guess = max(0, (hunk.old_start or 0) - (1 if old else 0)) + drift
        anchor, last = anchored(hunk), len(file) - len(old)
        allowed = [
            at
            for at in range(done, last + 1)
            if file[at : at + len(old)] == old
            and not (anchor.at_beginning and at)
            and not (anchor.at_end and at < last)
        ]
        if not allowed:
            return None
        place = min(allowed, key=lambda at: (abs(at - guess), at))
        new = [line.text + "\n" * line.newline for line in hunk.new]
        file[place : place + len(old)] = new
        drift, done = drift + place - guess + len(new) - len(old), place + len(new)
    return "".join(file)


few_lines = st.lists(st.sampled_from("ab{}"), max_size=10).map(lambda lines: "".join(f"{line}\n" for line in lines))
insertions = st.tuples(few_lines, few_lines, few_lines).map(lambda parts: (parts[0] + parts[2], "".join(parts)))


@settings(max_examples=400)
@given(pair=insertions | st.tuples(few_lines | distinct_texts, few_lines | distinct_texts), context=st.integers(1, 5))
@example(pair=("a\nb\n", "x\na\nb\n"), context=3)
@example(pair=("a\nb\n", "a\nb\nx\n"), context=3)
@example(pair=("{\n}\n{\n}\n", "{\nx\n}\n{\n}\n"), context=1)
def test_a_diff_is_refused_a_second_time_or_gives_what_git_or_gnu_patch_give(
    pair: tuple[str, str], context: int
) -> None:
    before, after = pair
    patch = diff(before, after, context)
    if not patch or not before:
        return
    assert apply_patch(before, patch) == after
    hunks = [hunk for file in parse_patch(before, patch) or () for hunk in file.hunks]
    try:
        twice = apply_patch(after, patch)
    except PatchError:
        return
    assert twice in {applied_nearest(after, hunks, as_git), applied_nearest(after, hunks, as_gnu)}


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
