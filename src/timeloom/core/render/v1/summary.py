"""Renders the summary of a range of entries: prose, then bounded lists of facts with the paths of the originals."""

import re
from collections.abc import Sequence
from typing import Final

from timeloom.core.paths import MAX_SELECTED, EntriesPath, TurnIndexesPath
from timeloom.core.render.facts import SummaryFacts, TurnRow
from timeloom.core.render.foreign_text.fence import escape, escape_reserved, excerpt, fence, one_line
from timeloom.core.render.title import strip_thinking
from timeloom.core.render.v1.call_list import LINE_TOKENS, call_lines, effects_line
from timeloom.core.stream.surrogates import replace_lone_surrogates
from timeloom.core.tokens import estimate_tokens

WORDS_CHARS: Final = 80
"""Maximum number of characters of the question and of the answer in a row."""

WORKING_SUMMARY_CHARS: Final = 300
"""Maximum number of characters per turn in a summary that no model wrote."""

MESSAGE_CHARS: Final = 400
"""Maximum number of characters of a message that the user sent during a turn."""

FOCUS_CHARS: Final = 2_000
"""Maximum number of characters of the focus in a request for a summary; it is foreign text."""

MAX_OUTSIDE: Final = 100
"""Maximum number of entries outside of turns that are listed one by one."""

HEADING_TOKENS: Final = 12
"""Overhead of a section in tokens besides its heading: the line about older lines, and rounding."""

_BREAK: Final = "\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_HEADING: Final = re.compile(rf"(?:\A|(?<=[{_BREAK}]))[^\S{_BREAK}]*+#{{1,2}}(?=\s|\Z)")
_SECTION: Final = "\n## "
_RUNNING: Final = "The turn that is running"
_CALLS: Final = "Calls of the turn that is running"


def summary_text(prose: str, facts: SummaryFacts, tokens: int, prose_tokens: int) -> str:
    """Return the text of a summary with at most about `tokens` tokens, however many entries it covers.

    The paths of all covered turns and the effects of the running turn are never left out.
    """
    head = _covered_section(facts)
    available = max(0, tokens - estimate_tokens(head))
    prose = truncate_to_tokens(prose, min(prose_tokens, available // 3))
    available -= estimate_tokens(prose)
    running = _section(_RUNNING, _shorten_lines(facts.current_messages, available // 2), available // 2)
    available -= estimate_tokens(running)
    room = available * 3 // 4
    calls = _section(_CALLS, call_lines(facts.current_calls, _lines_tokens(_CALLS, room)), room)
    available -= estimate_tokens(calls)
    sections: list[str] = [running, calls]
    for title, lines, share in (
        ("Notes", facts.notes, 0.5),
        ("Said while turns ran", facts.messages, 0.4),
        ("Files", facts.files, 0.4),
    ):
        section = _section(title, lines, int(available * share))
        sections.append(section)
        available -= estimate_tokens(section)
    table = _section("Turns", [_turn_line(turn) for turn in facts.turns], available)
    return "\n\n".join(part for part in (prose, head, table, *sections) if part)


def extract_prose(summary: str) -> str:
    """Return the prose of a summary made here; of any other summary, all of its text."""
    return "" if summary.startswith(_SECTION[1:]) else summary.split(_SECTION, 1)[0].strip()


def clean_prose(reply: str) -> str:
    """Return the prose in a model's reply; empty if there is none."""
    # The sections after the prose have second-level headings, so headings in the prose are demoted to the third level.
    # A heading can follow any Unicode line break.
    return _HEADING.sub("###", replace_lone_surrogates(strip_thinking(reply))).strip()


def fallback_prose(previous: str, turns: Sequence[TurnRow], tokens: int) -> str:
    """Return prose without a model: the previous prose and the working summaries of the turns.

    If not all summaries fit, the newest are kept.
    """
    before = truncate_to_tokens(previous, tokens // 2)
    lines = [
        f"- turn {turn.n}: {excerpt(turn.working_summary, WORKING_SUMMARY_CHARS)}"
        for turn in turns
        if turn.working_summary
    ]
    rest = _newest_fitting(lines, tokens - estimate_tokens(before))
    return "\n".join(part for part in (before, *rest) if part)


def summary_request_text(previous: str, cards: Sequence[str], prose_tokens: int, tokens: int, focus: str = "") -> str:
    """Return the material from which a model writes the prose, with at most about `tokens` tokens.

    `focus` says what the summary should keep; it stands fenced before the last lines.
    """
    before = truncate_to_tokens(escape_reserved(previous), tokens // 4)
    end = f"{_focus_section(focus)}THE SUMMARY\nAt most {prose_tokens * 2 // 3} words.\n"
    room = tokens - estimate_tokens(before) - estimate_tokens(end)
    happened = _newest_fitting([truncate_to_tokens(card, max_card_tokens(room)) for card in cards], room)
    left_out = ["(what came before is left out here)"] if len(happened) < len(cards) else []
    parts = [f"THE SUMMARY SO FAR\n{before}"] if before else []
    return "\n\n".join([*parts, "WHAT HAPPENED", *left_out, *happened, end])


def _focus_section(focus: str) -> str:
    if not focus.strip():
        return ""
    words = fence(focus.strip()[:FOCUS_CHARS])
    return f"THE FOCUS\nThe summary was asked for with these words: tell more about what they name.\n{words}\n\n"


def max_card_tokens(room: int) -> int:
    """Return the maximum number of tokens of one turn in a request with `room` tokens for all turns."""
    return max(200, room // 2)


def turn_index_paths(first_turn: int, last_turn: int) -> str:
    """Return the paths of the indexes of these turns, by turn number."""
    starts = range(first_turn, last_turn + 1, MAX_SELECTED)
    return ", ".join(str(TurnIndexesPath(((at, min(at + MAX_SELECTED - 1, last_turn)),))) for at in starts)


def truncate_to_tokens(text: str, tokens: int) -> str:
    """Return the beginning of the text with at most `tokens` tokens, cut at a line end if possible."""
    if estimate_tokens(text) <= tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(text[:middle]) < tokens:
            low = middle
        else:
            high = middle - 1
    cut = text[:low]
    end = cut.rfind("\n")
    kept = (cut[:end] if end > low // 2 else cut).rstrip("… \n")
    return f"{kept}…" if kept else ""


def _covered_section(facts: SummaryFacts) -> str:
    lines = ["## Covered", f"Entries {facts.first_seq} to {facts.last_seq}."]
    if facts.last_turn:
        one = f'react.read(["{TurnIndexesPath.from_numbers([facts.last_turn])}"])'
        lines.append(f"Every turn has an index that names all it holds: {turn_index_paths(1, facts.last_turn)}.")
        lines.append(f"Read the index of one turn, as in {one}, then the path that you need.")
    if effects := effects_line(facts.current_calls):
        lines.append(effects)
    if facts.outside:
        lines.append(f"Of no turn: {EntriesPath.from_numbers(facts.outside[-MAX_OUTSIDE:])}")
    if facts.previous_path:
        lines.append(f"The summary before this one: {facts.previous_path}")
    if facts.by_hand:
        lines.append(f"No model wrote this summary: {one_line(facts.by_hand)}")
    return "\n".join(lines)


def _turn_line(turn: TurnRow) -> str:
    words = f"- {turn.n} {turn.turn_id} {turn.ts[:16]}: {_turn_words(turn)}"
    return f"{words} ({turn.working_summary_path})" if turn.working_summary_path else words


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


def quote_message(head: str, text: str, chars: int) -> str:
    """Return a message behind its head: on the same line if it is one line, otherwise fenced, line by line."""
    if len(text) <= chars and text.splitlines() in ([], [text]):
        return f"{head}: {escape(text)}"
    part = f" (the first {chars} of {len(text)} characters)" if len(text) > chars else ""
    return f"{head}{part}:\n{fence(text[:chars])}".removesuffix("\n")


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
