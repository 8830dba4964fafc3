"""Refuses replacement texts that are incomplete because of a placeholder, or wrapped in a code fence."""

import re

from timeloom.core.patch.fences import find_fenced_blocks
from timeloom.core.patch.types import PatchError, quote_text

_PLACEHOLDER = re.compile(r"(#+|//+|--|/\*+|<!--|;+|%+|\{/\*+|)\s*[\[(]?(?:\.{3}|…)(.{0,100})")
_OMISSION_WORD = re.compile(r"\b(?:existing|rest|remaining|unchanged|omitted)\b", re.IGNORECASE)


def refuse_partial_text(before: str, text: str) -> None:
    """Raise if the new text is wrapped in a fence, or if a placeholder replaces lines of the file."""
    lines = [line.rstrip("\r") for line in text.split("\n")]
    known = {line.rstrip("\r") for line in before.split("\n")}
    _refuse_fence(known, lines)
    for at, line in enumerate(lines if before.strip() else []):
        if line not in known and _is_placeholder(line):
            raise PatchError(
                "patch_malformed",
                f"line {at + 1} of the new text is {quote_text(line)}, which stands for lines that would be lost; "
                "give the whole text, or the change as a diff",
            )


def _refuse_fence(known: set[str], lines: list[str]) -> None:
    written = [at for at, line in enumerate(lines) if line.strip()]
    first, last = written[0], written[-1]
    block = find_fenced_blocks(lines).get(first)
    if block is None or lines[first] in known:
        return
    bare_end = first < last and lines[last].strip() == lines[first][:3] and block.language in ("md", "markdown")
    if block.closing == last or bare_end:
        raise PatchError(
            "patch_malformed",
            f"the new text stands in a fence ({quote_text(lines[first])}), which would become part of the file; "
            "give it without the fence, or by react.write if the file is to have it",
        )


def _is_placeholder(line: str) -> bool:
    found = _PLACEHOLDER.fullmatch(line.strip()) if "..." in line or "…" in line else None
    if found is None or not _OMISSION_WORD.search(found[2]):
        return False
    return bool(found[1]) or found[2].rstrip(" */->})]").endswith(("...", "…"))
