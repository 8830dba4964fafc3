"""Lists the calls of a running turn, so that a summary or card that covers them leaves a trace of each."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from timeloom.core.render.facts import CallFact, CallOutcome
from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.tokens import estimate_tokens

MAX_EFFECT_GROUPS: Final = 20
"""Maximum number of tools and outcomes that the line of effects names; the others are counted."""

IDS_PER_LINE: Final = 20
"""Number of call ids in a line of a group. A line is kept or left out as a whole."""

LINE_TOKENS: Final = 3
"""Overhead of a line in tokens: its line break and rounding."""

_EFFECTS: Final[dict[CallOutcome, str]] = {
    "ok": ", had effects",
    "failed": ", may have had effects",
    "not approved": "",
    "no result": ", may have had effects",
}


def _words(call: CallFact) -> str:
    """Return tool, outcome and effects."""
    return f"{one_line(call.tool_id)} {call.outcome}{_EFFECTS[call.outcome] if call.has_effects else ''}"


def effects_line(calls: Sequence[CallFact]) -> str:
    """Return the line that counts the executed calls with effects; empty if there are none.

    Its length is bounded, so that it fits where single calls do not.
    """
    counts = Counter(_words(call) for call in calls if call.has_effects and call.outcome != "not approved")
    if not counts:
        return ""
    groups = [f"{count} x {words}" for words, count in counts.most_common(MAX_EFFECT_GROUPS)]
    rest = counts.total() - sum(count for _, count in counts.most_common(MAX_EFFECT_GROUPS))
    return "Executed in the running turn: " + "; ".join([*groups, *([f"{rest} other calls"] if rest else [])]) + "."


def call_lines(calls: Sequence[CallFact], tokens: int) -> list[str]:
    """Return a line for each call, those with effects last, and their sum; if that is too long, ids in groups.

    A section that is too long loses its first lines, so the important lines come last.
    """
    if not calls:
        return []
    ordered = sorted(calls, key=_has_effects)
    counts = Counter(f"{one_line(call.tool_id)} {call.outcome}" for call in calls)
    total = f"- all {len(calls)}: {', '.join(f'{count} x {what}' for what, count in counts.items())}"
    lines = [*(f"- {_words(call)} {call.path}" for call in ordered), total]
    if sum(estimate_tokens(line) + LINE_TOKENS for line in lines) <= tokens:
        return lines
    return [*_group_lines(ordered), total]


def _group_lines(calls: Sequence[CallFact]) -> list[str]:
    """Return lines that name the calls by their ids, grouped by words."""
    groups: dict[str, list[CallFact]] = {}
    for call in calls:
        groups.setdefault(_words(call), []).append(call)
    lines: list[str] = []
    for words, group in groups.items():
        for at in range(0, len(group), IDS_PER_LINE):
            ids = ", ".join(call.call_id for call in group[at : at + IDS_PER_LINE])
            lines.append(f"- {words} tc:{group[0].turn_id}.ID.result with each ID of {ids}")
    return lines


def _has_effects(call: CallFact) -> bool:
    return call.has_effects
