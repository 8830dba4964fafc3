"""Renders the summary of a range of entries: prose, then bounded lists of facts with the paths of the originals."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom.core.ids import TurnId
from timeloom.core.paths import MAX_SELECTED, EntriesPath, TurnIndexesPath
from timeloom.core.render.foreign_text.fence import guard, one_line
from timeloom.core.render.title import spoken
from timeloom.core.stream.surrogates import mended
from timeloom.core.tokens import estimate

WORDS_CHARS: Final = 80
"""Maximum number of characters of the question and of the answer in a row."""

RECAP_CHARS: Final = 300
"""Maximum number of characters per turn in a summary that no model wrote."""

SAID_CHARS: Final = 400
"""Maximum number of characters of a message that the user sent during a turn."""

MAX_OUTSIDE: Final = 100
"""Maximum number of entries outside of turns that are listed one by one."""

LINE_TOKENS: Final = 3
"""Overhead of a line in tokens: its line break and rounding."""

_HEADING: Final = re.compile(r"^[^\S\n]*#{1,2}(?=\s|\Z)", re.MULTILINE)
_BREAK: Final = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_SECTION: Final = "\n## "


class TurnRow(msgspec.Struct, frozen=True, kw_only=True):
    """A covered turn in a few words: the request, the answer, and the path of its working summary."""

    n: int
    turn_id: TurnId
    ts: str
    asked: str = ""
    answered: str = ""
    recap: str = ""
    """The text of the working summary, if there is one."""
    recap_path: str = ""


class Survivors(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that a summary keeps besides its prose; every list is oldest first and may be cut at the front."""

    first_seq: int
    last_seq: int
    last_turn: int
    """The number of the last turn that is covered at least in part."""
    turns: tuple[TurnRow, ...] = ()
    current: tuple[str, ...] = ()
    """The user's messages of the current turn, if a part of that turn is covered."""
    notes: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    outside: tuple[int, ...] = ()
    former: str = ""
    """The path of the previous summary, which this one includes."""
    by_hand: str = ""
    """Why no model wrote the prose."""


def summary_text(prose: str, kept: Survivors, tokens: int, prose_tokens: int) -> str:
    """Return the text of a summary with at most about `tokens` tokens, however many entries it covers."""
    head = _covered(kept)
    room = max(0, tokens - estimate(head))
    prose = within(prose, min(prose_tokens, room // 3))
    room -= estimate(prose)
    sections: list[str] = []
    for title, lines, share in (
        ("The turn that is running", kept.current, 0.5),
        ("Notes", kept.notes, 0.5),
        ("Said while turns ran", kept.said, 0.4),
        ("Files", kept.files, 0.4),
    ):
        section = _section(title, lines, int(room * share))
        sections.append(section)
        room -= estimate(section)
    table = _section("Turns", [_row(turn) for turn in kept.turns], room)
    return "\n\n".join(part for part in (prose, head, table, *sections) if part)


def prose_of(summary: str) -> str:
    """Return the prose of a summary made here; of any other summary, all of its text."""
    return "" if summary.startswith(_SECTION[1:]) else summary.split(_SECTION, 1)[0].strip()


def clean_prose(reply: str) -> str:
    """Return the prose in a model's reply; empty if there is none."""
    # The sections after the prose have second-level headings, so headings in the prose are demoted to the third level.
    # All Unicode line breaks are normalized first, because a heading could follow any of them.
    return _HEADING.sub("###", _BREAK.sub("\n", mended(spoken(reply)))).strip()


def recap(former: str, turns: Sequence[TurnRow], tokens: int) -> str:
    """Return prose without a model: the previous prose and the working summaries of the turns.

    If not all summaries fit, the newest are kept.
    """
    before = within(former, tokens // 2)
    lines = [f"- turn {turn.n}: {one_line(turn.recap, RECAP_CHARS)}" for turn in turns if turn.recap]
    rest = _newest(lines, tokens - estimate(before))
    return "\n".join(part for part in (before, *rest) if part)


def request_text(former: str, cards: Sequence[str], prose_tokens: int, tokens: int) -> str:
    """Return the material from which a model writes the prose, with at most about `tokens` tokens."""
    before = within(guard(former), tokens // 4)
    end = f"THE SUMMARY\nAt most {prose_tokens * 2 // 3} words.\n"
    room = tokens - estimate(before) - estimate(end)
    happened = _newest([within(card, longest_card(room)) for card in cards], room)
    left_out = ["(what came before is left out here)"] if len(happened) < len(cards) else []
    parts = [f"THE SUMMARY SO FAR\n{before}"] if before else []
    return "\n\n".join([*parts, "WHAT HAPPENED", *left_out, *happened, end])


def longest_card(room: int) -> int:
    """Return the maximum number of tokens of one turn in a request with `room` tokens for all turns."""
    return max(200, room // 2)


def indexes_of(first_turn: int, last_turn: int) -> str:
    """Return the paths of the indexes of these turns, by turn number."""
    starts = range(first_turn, last_turn + 1, MAX_SELECTED)
    return ", ".join(str(TurnIndexesPath(((at, min(at + MAX_SELECTED - 1, last_turn)),))) for at in starts)


def within(text: str, tokens: int) -> str:
    """Return the beginning of the text with at most `tokens` tokens, cut at a line end if possible."""
    if estimate(text) <= tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate(text[:middle]) < tokens:
            low = middle
        else:
            high = middle - 1
    cut = text[:low]
    end = cut.rfind("\n")
    kept = (cut[:end] if end > low // 2 else cut).rstrip("… \n")
    return f"{kept}…" if kept else ""


def _covered(kept: Survivors) -> str:
    lines = ["## Covered", f"Entries {kept.first_seq} to {kept.last_seq}."]
    if kept.last_turn:
        one = f'react.read(["{TurnIndexesPath.of([kept.last_turn])}"])'
        lines.append(f"Every turn has an index that names all it holds: {indexes_of(1, kept.last_turn)}.")
        lines.append(f"Read the index of one turn, as in {one}, then the path that you need.")
    if kept.outside:
        lines.append(f"Of no turn: {EntriesPath.of(kept.outside[-MAX_OUTSIDE:])}")
    if kept.former:
        lines.append(f"The summary before this one: {kept.former}")
    if kept.by_hand:
        lines.append(f"No model wrote this summary: {one_line(kept.by_hand)}")
    return "\n".join(lines)


def _row(turn: TurnRow) -> str:
    words = f"- {turn.n} {turn.turn_id} {turn.ts[:16]}: {_course(turn)}"
    return f"{words} ({turn.recap_path})" if turn.recap_path else words


def _course(turn: TurnRow) -> str:
    asked, answered = one_line(turn.asked, WORDS_CHARS), one_line(turn.answered, WORDS_CHARS)
    return f"{asked} -> {answered}" if answered else asked


def _section(title: str, lines: Sequence[str], tokens: int) -> str:
    heading = f"## {title}"
    shown = _newest(lines, tokens - estimate(heading) - 12)
    if not shown:
        return ""
    older = len(lines) - len(shown)
    more = [f"(the newest {len(shown)}; older ones are in the indexes)"] if older else []
    return "\n".join([heading, *more, *shown])


def _newest(lines: Sequence[str], tokens: int) -> list[str]:
    """Return the last lines that fit together, oldest first."""
    shown: list[str] = []
    for line in reversed(lines):
        tokens -= estimate(line) + LINE_TOKENS
        if tokens < 0:
            break
        shown.append(line)
    return shown[::-1]
