"""Patches: a unified diff, or a whole new text, applied to a file's text."""

from timeloom.core.patch.apply import apply_patch, plan_diff, plan_patch, read_patch
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
    "plan_diff",
    "plan_patch",
    "read_patch",
]
