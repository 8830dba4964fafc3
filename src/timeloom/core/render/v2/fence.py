"""Fences foreign text in edition 2: only a line that could be mistaken for a line of the runtime is changed.

Every line that the runtime writes begins with `[`, `<channel`, `</channel`, `HIDDEN` or the mark of a plan step. So a
foreign line that begins in this way gets one `~` before its first visible character. Four decisions make the rule hold:

- Every Unicode line break begins a line. Blanks and characters without a form of their own do not begin it, and do not
  split a word: `HID<U+200B>DEN` is `HIDDEN`. Marks that combine with the character before them have no form of their
  own.
- A character counts as the ASCII character into which the normal form NFKC turns it, since some tokenizers apply it:
  full-width `［` is `[`. Other look-alikes, such as `【` or a Cyrillic `Н`, stay as they are.
- A line that has one or more `~` before such a beginning gets one more. So `unfence_text` is the exact inverse.
- Whether a line is escaped depends only on how it begins. So the beginning of a fenced text is safe wherever it is cut.
  An end of it is safe from any line on; a part from the middle of a line must be fenced again.

As in edition 1, a `~` is inserted into `<channel:`, `</channel:` and `[[S:` anywhere in a line.
"""

import re
from functools import cache
from typing import Final

from timeloom.core.plans.marks import SPELLINGS
from timeloom.core.render.foreign_text.fence import (
    ESCAPE,
    MAX_LINE_CHARS,
    PREVIEW_MARKS,
    append_escape,
    escape,
    escape_bare,
    escape_bare_channels,
    escape_channels,
    fence,
    one_line,
    split_lines,
    unescape,
    unfence,
)
from timeloom.core.render.v2.unicode_classes import BLANKS, BREAKS, SPACES, forms_of

MAX_NAME_CHARS: Final = 1_200
"""Maximum length of an alias, a path or a state in a begin line. A smaller limit cuts the longest paths."""

MAX_MESSAGE_CHARS: Final = 4_000
"""Maximum length of the message in a begin line, as for the text of a notice."""

MAX_HELD_CHARS: Final = 400
"""Characters of a line that wait while it is unknown whether the line is escaped. The mark stands at its beginning."""

# Atomic, not possessive: possessive groups match wrongly before Python 3.11.5.
_GAP: Final = rf"(?>(?:(?![{SPACES}])[{BLANKS}])*)"
_BLANK: Final = rf"[{BLANKS}]*+"


def _one_of(chars: str) -> str:
    return f"[{''.join(re.escape(form) for char in chars for form in forms_of(char))}]"


def _word(word: str, *, any_case: bool = False) -> str:
    """Return a pattern of the word in all forms of its characters, with invisible characters between them."""
    return _GAP.join(_one_of(char + char.upper() if any_case else char) for char in word)


_SIGN: Final = "|".join(map(_word, SPELLINGS))
_MARK: Final = "|".join(
    (
        _one_of("["),
        rf"{_one_of('<')}{_GAP}(?>(?:{_one_of('/')}{_GAP})?){_word('channel', any_case=True)}",
        _word("HIDDEN"),
        # A bullet may stand before the mark, as in the notes of a model.
        rf"(?>(?:[-*+•][{BLANKS}]++)?)(?:{_SIGN}){_BLANK}(?>(?:{_one_of('[')}{_BLANK})?){_one_of('123456789')}",
    )
)
_BREAK: Final = re.compile(rf"[{BREAKS}]")


# The large patterns are compiled at their first use: together they take 80 ms, which every start would pay.
@cache
def _line_pattern() -> re.Pattern[str]:
    return re.compile(rf"([{BREAKS}]{_BLANK})(?={ESCAPE}*+(?:{_MARK}))")


@cache
def _bare_line_pattern() -> re.Pattern[str]:
    return re.compile(rf"([{BREAKS}]{_BLANK})(?={_MARK})")


@cache
def _maybe_fenced_pattern() -> re.Pattern[str]:
    return re.compile(rf"{_BLANK}(?:{ESCAPE}.*)?", re.DOTALL)


@cache
def _fenced_line_pattern() -> re.Pattern[str]:
    return re.compile(rf"([{BREAKS}]{_BLANK}){ESCAPE}(?={ESCAPE}*+(?:{_MARK}))")


def fence_text(text: str, first_line: int | None = None) -> str:
    """Return foreign text that can stand on lines of its own in a prompt.

    With `first_line`, every line stands behind its number, as in `12| text`. Such a line needs no other escape.
    """
    return _escape_lines(escape(text)) if first_line is None else fence(text, first_line)


def unfence_text(text: str, *, numbered: bool = False) -> str:
    """Return the text that was passed to `fence_text`; `numbered` if it was passed with a first line."""
    if numbered:
        return unfence(text)
    return unescape(_unfence_lines(text))


def fence_words(text: str) -> str:
    """Return text of the user or the agent that can stand on lines of its own; its citations stay as they are."""
    return _escape_lines(escape_channels(text))


def unfence_words(text: str) -> str:
    """Return the words of the agent without the `~` of lines that it copied from a prompt; all else stays as it is."""
    return _unfence_lines(text) if ESCAPE in text else text


class WordsStream:
    """Receives words of the agent in pieces; the joined result is `unfence_words` of the whole text.

    Only a line that begins with `~` waits for its end. Of a long one, the first `MAX_HELD_CHARS` characters
    decide.
    """

    __slots__ = ("_held", "_is_in_line")

    def __init__(self) -> None:
        self._held: str = ""  # the beginning of a line that may be escaped
        self._is_in_line = False  # whether the beginning of the current line has been returned

    def feed(self, text: str) -> str:
        """Return the text that is certain after the next piece."""
        breaks = list(_BREAK.finditer(text))
        if self._is_in_line and not breaks:
            return text
        start = len(self._held) + breaks[-1].end() if breaks else 0
        text = self._held + text
        waits = len(text) - start <= MAX_HELD_CHARS and _maybe_fenced_pattern().fullmatch(text, start) is not None
        sure, self._held = (text[:start], text[start:]) if waits else (text, "")
        was_in_line, self._is_in_line = self._is_in_line, not waits
        return _unfence_lines(sure, is_in_line=was_in_line)

    def close(self) -> str:
        """Return the rest of the text."""
        text, self._held = self._held, ""
        return _unfence_lines(text, is_in_line=False)


def refence_words(text: str) -> str:
    """Return recorded words of which some are escaped already, such as a summary, with the others escaped once."""
    return _bare_line_pattern().sub(append_escape, f"\n{escape_bare_channels(text)}")[1:]


def fence_line(text: str, limit: int = MAX_LINE_CHARS) -> str:
    """Return foreign text as one line of its own: white space collapsed, truncated, and fenced.

    Within a line that the runtime begins, `one_line` is enough.
    """
    return _escape_lines(one_line(text, limit))


def refence_text(text: str) -> str:
    """Return a recorded preview of any edition with every bare line and tag fenced.

    Its first line and its last lines may be lines of the runtime: `[PREVIEW]`, `[SHAPE]` or `[READ]`. A line in between
    is foreign, so it is escaped if it is not yet. A preview that the runtime recorded stays as it is.
    """
    lines = split_lines(escape_bare(text))
    first, last = 0, len(lines)
    while last and lines[last - 1].startswith(PREVIEW_MARKS):
        last -= 1
    if last and lines[0].startswith(PREVIEW_MARKS):
        first = 1
    middle = _bare_line_pattern().sub(append_escape, "\n" + "".join(lines[first:last]))[1:]
    return "".join([*lines[:first], middle, *lines[last:]])


def begin_line(alias: str, state: str = "", message: str = "") -> str:
    """Return the line before fenced text: `[t12.3]`, or `[t12.3 failed] message`; it escapes all three."""
    head = f"{one_line(alias, MAX_NAME_CHARS)} {one_line(state, MAX_NAME_CHARS)}".rstrip()
    return f"[{head}] {one_line(message, MAX_MESSAGE_CHARS)}".rstrip()


def end_line(alias: str) -> str:
    """Return the line after fenced text: `[/t12.3]`."""
    return f"[/{one_line(alias, MAX_NAME_CHARS)}]"


def end_with_break(text: str) -> str:
    """Return fenced text so that the next line begins after it: with a line feed at its end, unless it is empty."""
    return text if not text or text.endswith("\n") else f"{text}\n"


def _escape_lines(text: str) -> str:
    # The line break in front lets the pattern begin with one, so that the search skips to the next line break.
    return _line_pattern().sub(append_escape, f"\n{text}")[1:]


def _unfence_lines(text: str, *, is_in_line: bool = False) -> str:
    lead = "" if is_in_line else "\n"
    return _fenced_line_pattern().sub(lambda found: found[1], lead + text)[len(lead) :]
