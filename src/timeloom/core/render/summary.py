"""The summary of a range: prose on top, then what must not get lost, bounded, with the paths to all it stands for."""

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
"""How much a row shows of what the user asked and of what was answered."""

RECAP_CHARS: Final = 300
"""How much is carried over of each turn where no model writes the prose."""

SAID_CHARS: Final = 400
"""How much is kept of what the user added while a turn ran."""

MAX_OUTSIDE: Final = 100
"""Most entries that belong to no turn and are named one by one."""

LINE_TOKENS: Final = 3
"""What a line has besides its own words: its end, and what rounding left out."""

_HEADING: Final = re.compile(r"^[^\S\n]*#{1,2}(?=\s|\Z)", re.MULTILINE)
_BREAK: Final = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_SECTION: Final = "\n## "


class TurnRow(msgspec.Struct, frozen=True, kw_only=True):
    """A covered turn in a few words: what was asked, what came of it, and where its working summary is."""

    n: int
    turn_id: TurnId
    ts: str
    asked: str = ""
    answered: str = ""
    recap: str = ""
    """The working summary itself, if there is one."""
    recap_path: str = ""


class Survivors(msgspec.Struct, frozen=True, kw_only=True):
    """What outlives a summary besides its prose; every list has the oldest in front and may be cut there."""

    first_seq: int
    last_seq: int
    last_turn: int
    """The number of the last turn that is covered, or covered in part."""
    turns: tuple[TurnRow, ...] = ()
    current: tuple[str, ...] = ()
    """What the user said in the turn that is running, where a part of it is covered."""
    notes: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    outside: tuple[int, ...] = ()
    former: str = ""
    """The path of the summary that this one takes in."""
    by_hand: str = ""
    """Why no model wrote the prose."""


def summary_text(prose: str, kept: Survivors, tokens: int, prose_tokens: int) -> str:
    """The text of a summary, with at most about so many tokens, however much it stands for."""
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
    """The prose of a summary that was made here; of another, all of it."""
    return "" if summary.startswith(_SECTION[1:]) else summary.split(_SECTION, 1)[0].strip()


def clean_prose(reply: str) -> str:
    """The prose in a model's reply; empty where there is none."""
    # What follows the prose begins with headings of the second level; those of the model step back. Whatever any
    # reader takes for the end of a line is one, or a heading could stand behind it.
    return _HEADING.sub("###", _BREAK.sub("\n", mended(spoken(reply)))).strip()


def recap(former: str, turns: Sequence[TurnRow], tokens: int) -> str:
    """Prose without a model: what was known before, and the working summaries of turns, the newest if not all fit."""
    before = within(former, tokens // 2)
    lines = [f"- turn {turn.n}: {one_line(turn.recap, RECAP_CHARS)}" for turn in turns if turn.recap]
    rest = _newest(lines, tokens - estimate(before))
    return "\n".join(part for part in (before, *rest) if part)


def request_text(former: str, cards: Sequence[str], prose_tokens: int, tokens: int) -> str:
    """What a model is shown to write the prose from, with at most about so many tokens; all of it is material."""
    before = within(guard(former), tokens // 4)
    end = f"THE SUMMARY\nAt most {prose_tokens * 2 // 3} words.\n"
    room = tokens - estimate(before) - estimate(end)
    happened = _newest([within(card, longest_card(room)) for card in cards], room)
    left_out = ["(what came before is left out here)"] if len(happened) < len(cards) else []
    parts = [f"THE SUMMARY SO FAR\n{before}"] if before else []
    return "\n\n".join([*parts, "WHAT HAPPENED", *left_out, *happened, end])


def longest_card(room: int) -> int:
    """Most tokens of one turn that a model is shown of so many for all."""
    return max(200, room // 2)


def indexes_of(first_turn: int, last_turn: int) -> str:
    """The paths of the indexes of these turns, by their numbers."""
    starts = range(first_turn, last_turn + 1, MAX_SELECTED)
    return ", ".join(str(TurnIndexesPath(((at, min(at + MAX_SELECTED - 1, last_turn)),))) for at in starts)


def within(text: str, tokens: int) -> str:
    """The text's beginning with at most so many tokens, at the end of a line if there is one."""
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
    """The last lines that fit together, oldest first."""
    shown: list[str] = []
    for line in reversed(lines):
        tokens -= estimate(line) + LINE_TOKENS
        if tokens < 0:
            break
        shown.append(line)
    return shown[::-1]
