"""Detects edits in notations other than the unified diff, so that they are refused instead of written to the file."""

import re
from collections.abc import Set as AbstractSet

import msgspec

from timeloom.core.patch.syntax import NUMBERED_HUNK, is_file_header
from timeloom.core.patch.types import PatchError

WRITE_HINT = "a text that shows an edit replaces a file by react.write, not by a patch"

_ENVELOPE = ("*** Begin Patch", "*** Update File: ", "*** Add File: ", "*** Delete File: ")
_CONTEXT_DIFF = re.compile(r"\*\*\* \d{1,9}(?:,\d{1,9})? \*\*\*\*")
_NORMAL_DIFF = re.compile(r"\d{1,9}(?:,\d{1,9})?[acd]\d{1,9}(?:,\d{1,9})?")
_SEARCH_BLOCK = re.compile(r"<{7}(?: |$)|-{3,12} ?SEARCH\b|<{3,12} ?(?i:search|original|old|before|find|head)\b")
_SEARCH_TAGS = {"<search>": "<replace>", "<original>": "<updated>", "<old_string>": "<new_string>"}
_REPLACE_TAGS = set(_SEARCH_TAGS.values())
_INDENT_OR_COLOR = re.compile(r"\A(?:[ \t>]|\x1b\[[\d;]{0,20}m)+")
_HEADLESS = "a hunk without its @@ line"
_PREFACE_LINES = 3
"""Most lines of a preface above lines that are all added. A smaller limit misses remarks; a larger one takes documents
for remarks."""


class ForeignEdit(msgspec.Struct, frozen=True):
    """An edit in another notation, and its line counted from 0."""

    at: int
    what: str

    def to_error(self) -> PatchError:
        """Return the error that refuses the patch."""
        got = f"{self.what} at line {self.at + 1} of the patch"
        return PatchError("patch_malformed", f"expected a unified diff or the file's new text, got {got}; {WRITE_HINT}")


def find_foreign_edit(known: AbstractSet[str], lines: list[str], start: int, stop: int) -> ForeignEdit | None:
    """Return the first edit in another notation within these lines; lines that the file also has are content."""
    tags = _REPLACE_TAGS & {line.strip() for line in lines[start:stop] if "<" in line}
    for at in range(start, stop):
        if not lines[at].strip():
            continue
        line, above = lines[at].rstrip("\r"), lines[at - 1].rstrip("\r") if at > start else ""
        what = None if line in known else _detect_notation(lines, at, tags)
        if what is None and (_is_removal(known, line) or _is_pair(known, above, line)):
            what = _HEADLESS
        if what:
            return ForeignEdit(at, what)
    return None


def find_headless_hunk(known: AbstractSet[str], lines: list[str]) -> ForeignEdit | None:
    """Return the hunk if the whole text is one: its lines carry marks and are no list or signed numbers."""
    written = [(at, line.rstrip("\r")) for at, line in enumerate(lines) if line.strip()]
    first = next((index for index, (_, text) in enumerate(written) if text[0] in "+- "), len(written))
    marked = [text for _, text in written[first:]]
    if not any(text[0] in "+-" for text in marked) or any(text[0] not in "+- " for text in marked):
        return None
    adds = any(text[0] == "+" and _is_code(text[1:]) for text in marked)
    found = ForeignEdit(written[first][0], _HEADLESS)
    if first:
        is_preface = first <= _PREFACE_LINES and written[first - 1][1].rstrip().endswith(":")
        return found if adds and is_preface else None
    if not known:
        return found if adds and all(text[0] == "+" for text in marked) else None
    return found if adds or any(text[0] != "+" and text[1:] in known for text in marked) else None


def _detect_notation(lines: list[str], at: int, tags: AbstractSet[str]) -> str | None:
    line, below = lines[at], "".join(lines[at + 1 : at + 2])
    if line.startswith(_ENVELOPE):
        return "an apply_patch envelope"
    if _CONTEXT_DIFF.match(line) or (line.startswith("*** ") and below.startswith("--- ")):
        return "a context diff"
    if line.startswith(("@@@ -", "diff --cc ", "diff --combined ")):
        return "a combined diff"
    if _NORMAL_DIFF.fullmatch(line.rstrip()) and below.startswith(("<", ">")):
        return "a diff without context"
    if "-]{+" in line:
        return "a word diff"
    if _SEARCH_BLOCK.match(line.strip()) or _SEARCH_TAGS.get(line.strip()) in tags:
        return "a search-and-replace block"
    return "an indented or quoted diff" if _is_indented_diff(lines, at) else None


def _is_indented_diff(lines: list[str], at: int) -> bool:
    """Return whether the line belongs to a diff after removing indentation, quote marks or colours in front of it."""
    if lines[at][0] not in " \t>\x1b":
        return False
    line, below = (_INDENT_OR_COLOR.sub("", text, count=1) for text in (lines[at], "".join(lines[at + 1 : at + 2])))
    return line.startswith("diff --git ") or NUMBERED_HUNK.match(line) is not None or is_file_header([line, below], 0)


def _is_removal(known: AbstractSet[str], line: str) -> bool:
    """Return whether the line is a `-` followed by a line of the file."""
    bare = _INDENT_OR_COLOR.sub("", line, count=1)
    return bare[:1] == "-" and bare[1:] in known and line not in known and any(map(str.isalnum, bare))


def _is_pair(known: AbstractSet[str], above: str, line: str) -> bool:
    """Return whether two adjacent lines belong to a hunk and not to content: a replaced line, or an added one."""
    if above[:1] == "-" and line[:1] == "+":
        both_known = above in known and line in known
        return not both_known and ((_is_code(above[1:]) and _is_code(line[1:])) or above[1:].strip() in known)
    return _is_addition(known, line, above) or _is_addition(known, above, line)


def _is_addition(known: AbstractSet[str], line: str, beside: str) -> bool:
    """Return whether the line is marked as added next to a line of the file, which may carry a context mark."""
    if line[:1] != "+" or not _is_code(line[1:]) or line in known or beside[:1] in ("+", "-"):
        return False
    return beside in known or (beside[:1] == " " and beside[1:] in known)


def _is_code(text: str) -> bool:
    """Return whether the text after a mark is neither a list item nor a number nor the edge of a table."""
    return text.startswith(("  ", "\t")) or (bool(text.strip()) and text[0] not in " +-=" and not text[0].isdigit())
