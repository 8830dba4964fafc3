"""Renders the summary of a range of entries: prose, then bounded lists of facts with the paths of the originals.

The rows of a summary are escaped when it is written. A prompt escapes only what is still bare in it, so nothing is
escaped twice. Rows start with `- `: the recorded text stands below one line of the runtime.
"""

from collections.abc import Sequence
from typing import Final

from timeloom.core.paths import EntriesPath, TurnIndexPath
from timeloom.core.render.facts import SummaryFacts, TurnRow
from timeloom.core.render.foreign_text.fence import escape, excerpt, one_line, split_lines
from timeloom.core.render.names import Names
from timeloom.core.render.v1.summary import max_card_tokens, truncate_to_tokens, turn_index_paths
from timeloom.core.render.v2.call_list import LINE_TOKENS, call_lines, effects_words
from timeloom.core.render.v2.entries.channel_text import read_call
from timeloom.core.render.v2.fence import fence_text, fence_words
from timeloom.core.tokens import estimate_tokens

WORDS_CHARS: Final = 80
"""Maximum number of characters of the question and of the answer in a row."""

FOCUS_CHARS: Final = 2_000
"""Maximum number of characters of the focus in a request for a summary; it is foreign text."""

MAX_OUTSIDE: Final = 100
"""Maximum number of entries outside of turns that are listed one by one."""

HEADING_TOKENS: Final = 12
"""Overhead of a section in tokens besides its heading: the line about older lines, and rounding."""

INDENT: Final = "  "
"""Stands before each line of a message in a row."""

_RUNNING: Final = "The running turn"
_CALLS: Final = "Calls of the running turn"


def summary_text(prose: str, facts: SummaryFacts, tokens: int, prose_tokens: int, names: Names) -> str:
    """Return the text of a summary with at most about `tokens` tokens, however many entries it covers.

    The paths of all covered turns and the effects of the running turn are never left out.
    """
    head = _covered_section(facts, names)
    available = max(0, tokens - estimate_tokens(head))
    prose = truncate_to_tokens(prose, min(prose_tokens, available // 3))
    available -= estimate_tokens(prose)
    running = _section(_RUNNING, _shorten_lines(facts.current_messages, available // 2), available // 2)
    available -= estimate_tokens(running)
    room = available * 3 // 4
    calls = _section(_CALLS, _call_rows(facts, _lines_tokens(_CALLS, room), names), room)
    available -= estimate_tokens(calls)
    sections: list[str] = [running, calls]
    for title, lines, share in (
        ("Notes", facts.notes, 0.5),
        ("Messages during turns", facts.messages, 0.4),
        ("Files", facts.files, 0.4),
    ):
        section = _section(title, lines, int(available * share))
        sections.append(section)
        available -= estimate_tokens(section)
    table = _section("Turns", [_turn_line(turn, names) for turn in facts.turns], available)
    return "\n\n".join(part for part in (prose, head, table, *sections) if part)


def summary_request_text(previous: str, cards: Sequence[str], prose_tokens: int, tokens: int, focus: str = "") -> str:
    """Return the material from which a model writes the prose, with at most about `tokens` tokens.

    `focus` says what the summary should keep; it stands fenced before the last lines.
    """
    before = truncate_to_tokens(fence_words(previous), tokens // 4)
    end = f"{_focus_section(focus)}[THE SUMMARY]\nAt most {prose_tokens * 2 // 3} words.\n"
    room = tokens - estimate_tokens(before) - estimate_tokens(end)
    happened = _newest_fitting([truncate_to_tokens(card, max_card_tokens(room)) for card in cards], room)
    left_out = ["[LEFT OUT] the events before these"] if len(happened) < len(cards) else []
    parts = [f"[THE SUMMARY SO FAR]\n{before}"] if before else []
    return "\n\n".join([*parts, "[WHAT HAPPENED]", *left_out, *happened, end])


def message_row(kind: str, path: str, text: str, chars: int) -> str:
    """Return the row of a message: on one line if it has only one, otherwise fenced with each line indented.

    Rows and headings of a summary begin without blanks, so no line of the message can be mistaken for one.
    """
    head = f"- {kind} {one_line(path)}"
    if len(text) <= chars and text.splitlines() in ([], [text]):
        return f"{head}: {escape(text)}"
    part = f" (the first {chars} of {len(text)} characters)" if len(text) > chars else ""
    lines = "".join(f"{INDENT}{line}" for line in split_lines(fence_text(text[:chars])))
    return f"{head}{part}:\n{lines}".removesuffix("\n")


def _focus_section(focus: str) -> str:
    if not focus.strip():
        return ""
    words = fence_text(focus.strip()[:FOCUS_CHARS])
    return f"[THE FOCUS] Tell more about what these words name.\n{words}\n[/THE FOCUS]\n\n"


def _covered_section(facts: SummaryFacts, names: Names) -> str:
    lines = ["## Covered", f"Entries {facts.first_seq} to {facts.last_seq}."]
    if facts.last_turn:
        lines.append(f"Every turn has an index of its contents: {turn_index_paths(1, facts.last_turn)}.")
        one = facts.turns[-1].turn_id if facts.turns else None
        path = names.path(str(TurnIndexPath(one))) if one else turn_index_paths(facts.last_turn, facts.last_turn)
        lines.append(f"Read the index of one turn with {read_call(path)}, then the path that you need.")
    if effects := effects_words(facts.current_calls):
        lines.append(f"Executed in the running turn: {effects}.")
    if facts.outside:
        lines.append(f"Of no turn: {EntriesPath.from_numbers(facts.outside[-MAX_OUTSIDE:])}")
    if facts.previous_path:
        lines.append(f"The summary before this one: {names.path(facts.previous_path)}")
    if facts.by_hand:
        lines.append(f"No model wrote this summary: {one_line(facts.by_hand)}")
    return "\n".join(lines)


def _call_rows(facts: SummaryFacts, tokens: int, names: Names) -> list[str]:
    return [f"- {line}" for line in call_lines(facts.current_calls, tokens, names)]


def _turn_line(turn: TurnRow, names: Names) -> str:
    words = f"- {names.turn(turn.turn_id)} {turn.ts[:10]} {turn.ts[11:16]}: {_turn_words(turn)}"
    return f"{words} ({names.path(turn.working_summary_path)})" if turn.working_summary_path else words


def _turn_words(turn: TurnRow) -> str:
    asked, answered = excerpt(turn.asked, WORDS_CHARS), excerpt(turn.answered, WORDS_CHARS)
    return f"{asked} -> {answered}" if answered else asked


def _section(title: str, lines: Sequence[str], tokens: int) -> str:
    heading = f"## {title}"
    shown = _newest_fitting(lines, _lines_tokens(title, tokens))
    if not shown:
        return ""
    older = len(lines) - len(shown)
    more = [f"(the newest {len(shown)}; older ones are in the indexes)"] if older else []
    return "\n".join([heading, *more, *shown])


def _shorten_lines(lines: Sequence[str], tokens: int) -> list[str]:
    """Return the lines, each cut to what a section of `tokens` tokens can show."""
    return [truncate_to_tokens(line, _lines_tokens(_RUNNING, tokens) - LINE_TOKENS) for line in lines]


def _lines_tokens(title: str, tokens: int) -> int:
    """Return the tokens for the lines of a section with `tokens` tokens."""
    return tokens - estimate_tokens(f"## {title}") - HEADING_TOKENS


def _newest_fitting(lines: Sequence[str], tokens: int) -> list[str]:
    """Return the last lines that fit together, oldest first."""
    shown: list[str] = []
    for line in reversed(lines):
        tokens -= estimate_tokens(line) + LINE_TOKENS
        if tokens < 0:
            break
        shown.append(line)
    return shown[::-1]
