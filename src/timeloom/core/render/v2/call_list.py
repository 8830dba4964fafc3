"""Lists the calls of a running turn, so that a summary or card that covers them leaves a trace of each."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from timeloom.core.render.facts import CallFact, CallOutcome
from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.render.names import Names
from timeloom.core.tokens import estimate_tokens

MAX_EFFECT_GROUPS: Final = 20
"""Maximum number of tools and outcomes that the line of effects names; the others are counted."""

ALIASES_PER_LINE: Final = 20
"""Number of calls in a line of a group. A line is kept or left out as a whole."""

LINE_TOKENS: Final = 3
"""Overhead of a line in tokens: its line break and rounding."""

_EFFECTS: Final[dict[CallOutcome, str]] = {
    "ok": ", had effects",
    "failed": ", may have had effects",
    "not approved": "",
    "no result": ", may have had effects",
}


def effects_line(calls: Sequence[CallFact]) -> str:
    """Return the line of a card that counts the executed calls with effects; empty if there are none."""
    words = effects_words(calls)
    return f"[EXECUTED] in the running turn: {words}." if words else ""


def effects_words(calls: Sequence[CallFact]) -> str:
    """Return the counts of the executed calls with effects; empty if there are none.

    Their length is bounded, so that they fit where single calls do not.
    """
    counts = Counter(_words(call) for call in calls if call.has_effects and call.outcome != "not approved")
    if not counts:
        return ""
    groups = [f"{count} x {words}" for words, count in counts.most_common(MAX_EFFECT_GROUPS)]
    rest = counts.total() - sum(count for _, count in counts.most_common(MAX_EFFECT_GROUPS))
    return "; ".join([*groups, *([f"{rest} other calls"] if rest else [])])


def call_lines(calls: Sequence[CallFact], tokens: int, names: Names) -> list[str]:
    """Return a line for each call, those with effects last, and their sum; if that is too long, calls in groups.

    A section that is too long loses its first lines, so the important lines come last.
    """
    if not calls:
        return []
    ordered = sorted(calls, key=_has_effects)
    counts = Counter(f"{one_line(call.tool_id)} {call.outcome}" for call in calls)
    total = f"[CALLS] {len(calls)} in all: {', '.join(f'{count} x {what}' for what, count in counts.items())}"
    lines = [*(f"[{names.call(call.turn_id, call.call_id)}] {_words(call)}" for call in ordered), total]
    if sum(estimate_tokens(line) + LINE_TOKENS for line in lines) <= tokens:
        return lines
    return [*_group_lines(ordered, names), total]


def _group_lines(calls: Sequence[CallFact], names: Names) -> list[str]:
    """Return lines that name the calls by their aliases, grouped by words."""
    groups: dict[str, list[CallFact]] = {}
    for call in calls:
        groups.setdefault(_words(call), []).append(call)
    lines: list[str] = []
    for words, group in groups.items():
        for at in range(0, len(group), ALIASES_PER_LINE):
            part = group[at : at + ALIASES_PER_LINE]
            lines.append(f"[{', '.join(names.call(call.turn_id, call.call_id) for call in part)}] {words}")
    return lines


def _words(call: CallFact) -> str:
    """Return tool, outcome and effects."""
    return f"{one_line(call.tool_id)} {call.outcome}{_EFFECTS[call.outcome] if call.has_effects else ''}"


def _has_effects(call: CallFact) -> bool:
    return call.has_effects
