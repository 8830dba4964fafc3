"""The assistant's own instructions in a system text: their label in the log, and how they are found again."""

import hashlib
from collections.abc import Iterable
from typing import Final

OWN_HEADING: Final = "# Instructions of this assistant\n\n"
"""Stands before the own instructions in the system texts of all editions."""

_LABEL: Final = "own."
_DIGEST_CHARS: Final = 16
"""Enough that two texts of one deployment never share a digest by chance."""


def own_label(instructions: str) -> str:
    """Return the label that model calls record for these instructions; empty for none."""
    return f"{_LABEL}{_digest(instructions.strip())}" if instructions.strip() else ""


def label_digest(labels: Iterable[str]) -> str:
    """Return the digest of the own instructions among the recorded labels; empty if there is none."""
    return next((label.removeprefix(_LABEL) for label in labels if label.startswith(_LABEL)), "")


def find_own_instructions(system_text: str, digest: str) -> str:
    """Return the own instructions with that digest from a recorded system text; empty if they are not there."""
    start = system_text.find(OWN_HEADING)
    while start >= 0:
        rest = system_text[start + len(OWN_HEADING) :].rstrip("\n")
        # Only the section on the output may follow, which begins with a heading.
        end = len(rest)
        while end >= 0:
            if _digest(rest[:end].strip()) == digest:
                return rest[:end].strip()
            end = rest.rfind("\n# ", 0, end)
        start = system_text.find(OWN_HEADING, start + 1)
    return ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
