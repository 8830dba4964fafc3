"""Applies patches to a file's text: a unified diff, or a whole replacement text.

Reading order: `apply` (the entry points), `types`, `detect` (diff or replacement), `parse`, `syntax`, `fences`,
`locate` (find each hunk), `splice` (insert it), and the checks `line_numbers`, `other_formats` and `replacement`.
"""

from timeloom.core.patch.apply import apply_patch, parse_patch, plan_diff, plan_patch
from timeloom.core.patch.types import (
    DRIFT_LINES,
    MAX_FILE_CHARS,
    MAX_FILE_LINES,
    MAX_HUNKS,
    MAX_PATCH_CHARS,
    MAX_SEARCHED_LINES,
    FileDiff,
    PatchError,
    PatchResult,
    PlacedHunk,
)

__all__ = [
    "DRIFT_LINES",
    "MAX_FILE_CHARS",
    "MAX_FILE_LINES",
    "MAX_HUNKS",
    "MAX_PATCH_CHARS",
    "MAX_SEARCHED_LINES",
    "FileDiff",
    "PatchError",
    "PatchResult",
    "PlacedHunk",
    "apply_patch",
    "parse_patch",
    "plan_diff",
    "plan_patch",
]
