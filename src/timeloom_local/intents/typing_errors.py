"""Corrects typing errors in the words of commands, such as `teh` and `serch`."""

import re
from typing import Final

import msgspec

from timeloom_local.intents.common_words import COMMON_WORDS

COMMAND_WORDS: Final = frozenset(
    re.split(
        r"\s+",
        "add append put insert write save store create make replace change swap correct update remove delete show read "
        "open display print list summarize search find calculate compute divide multiply subtract average program "
        "python script plan checklist step steps file files document line lines word words sentence text note attached "
        "attachment called named with from into the and that this what which where when please could would number "
        "numbers total result percent between difference following first second last says "
        "contains tell give",
    )
)
"""The words of the rules that a word with a typing error may stand for."""

MAX_CORRECTIONS: Final = 12
"""Maximum number of words of a message that are corrected."""

_LONG: Final = 7
_MIN_CHARS: Final = 3


class Correction(msgspec.Struct, frozen=True):
    """A word with a typing error, its place in the message, and the word that is meant."""

    start: int
    word: str
    meant: str


def find_corrections(text: str) -> list[Correction]:
    """Return the words of a text that are command words with a typing error; common words and names stay."""
    found = [
        Correction(match.start(), match[0], meant)
        for match in _WORD.finditer(text)
        if (meant := _meant(match[0].lower()))
    ]
    # `form` is also a word, but not before the name of a file.
    found += [Correction(match.start(), match[0], "from") for match in _FORM.finditer(text)]
    return found[:MAX_CORRECTIONS]


def apply_corrections(text: str, corrections: list[Correction]) -> str:
    """Return the text with the corrections made."""
    for one in sorted(corrections, key=lambda one: -one.start):
        text = text[: one.start] + one.meant + text[one.start + len(one.word) :]
    return text


def is_near(word: str, meant: str) -> bool:
    """Return whether a word is a command word with one typing error, or two if it is long."""
    if word == meant or (word[0] != meant[0] and word[:2] != meant[1::-1]):
        return False
    return count_errors(word, meant, limit := 2 if len(meant) >= _LONG else 1) <= limit


def count_errors(word: str, meant: str, limit: int) -> int:
    """Return the Damerau-Levenshtein distance of two words; `limit + 1` if their lengths differ by more than that."""
    if abs(len(word) - len(meant)) > limit:
        return limit + 1
    rows = [list(range(len(meant) + 1))]
    for n, char in enumerate(word, 1):
        row = [n]
        for m, other in enumerate(meant, 1):
            cost = min(rows[-1][m] + 1, row[-1] + 1, rows[-1][m - 1] + (char != other))
            if n > 1 and m > 1 and char == meant[m - 2] and word[n - 2] == other:
                cost = min(cost, rows[-2][m - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]


def _meant(word: str) -> str:
    """Return the command word that is meant; empty if the word is a common one, or if several fit equally well."""
    if len(word) < _MIN_CHARS or word in COMMAND_WORDS or word in COMMON_WORDS:
        return ""
    near = [(count_errors(word, meant, 2), meant) for meant in sorted(COMMAND_WORDS) if is_near(word, meant)]
    # Of the same number of errors, swapped letters are the likelier ones.
    best = sorted((errors, sorted(meant) != sorted(word), meant) for errors, meant in near)
    return best[0][2] if best and (len(best) == 1 or best[0][:2] < best[1][:2]) else ""


_WORD: Final = re.compile(r"(?<![\w./@'’-])[A-Za-z]{1,20}(?![\w/@'’-]|\.\w)")
_FORM: Final = re.compile(r"\bform(?=\s(?:the |my )?[\w-]{1,80}\.[a-z]{2,4}\b)", re.IGNORECASE)
