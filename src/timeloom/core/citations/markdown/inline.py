"""Finds the citation tokens that Markdown shows as text in one paragraph or heading.

The scanner receives the block's content in pieces and reads it once. At an undecided construct it waits until
noticeably more text has arrived. Thus many small pieces cost no more than one large piece.
"""

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Final

import msgspec

from timeloom.core.citations.html import HtmlFinder
from timeloom.core.citations.markdown.backticks import BacktickRuns
from timeloom.core.citations.markdown.grammar import (
    MAX_LABEL_CHARS,
    NEED_MORE,
    NO_MATCH,
    TAG,
    TerminatorSearch,
    TextWindow,
    angle_end,
    definition_end,
    inline_target_end,
    label_end,
    normalize_label,
)
from timeloom.core.citations.tokens import MAX_TOKEN_CHARS, TOKEN, Citation, parse_sids

MAX_LOOKAHEAD_CHARS: Final = 10_000
"""Longest code span, tag or link; a longer one is taken for text. A smaller limit misreads long ones; a larger one lets
an unclosed one hold back more of the stream."""

MAX_DEFINITIONS: Final = 1_000
"""Most link reference definitions that are stored. A smaller limit misreads long lists; a larger one costs memory."""

MAX_DEFINITION_CHARS: Final = 2_000
"""Longest link reference definition; a longer one is taken for text. A smaller limit misreads long titles; a larger one
makes hostile ones cost more, since each of their lines is parsed together with all before it."""

_KEPT_CHARS: Final = MAX_LABEL_CHARS + 2
"""Characters of scanned text to keep, so that a `]` can look back at its label or token."""

_SPECIAL: Final = re.compile(rf"[\\<!\[\]]|`{{1,{MAX_LOOKAHEAD_CHARS}}}+")
_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


@dataclass(slots=True)
class _OpenBracket:
    """An open `[` at `at`, the number of the first citation after it, and its content so far."""

    at: int
    image: bool
    first: int
    holds_link: bool = False
    holds_bracket: bool = False


class InlineScanner:
    """Finds the citations in the content of one block; a paragraph adds its link definitions to `definitions`.

    `html` knows the elements around the block and follows its tags: a token inside `<code>` is not a citation.
    """

    def __init__(self, definitions: set[str], html: HtmlFinder, *, paragraph: bool) -> None:
        self.html = html
        self._definitions = definitions
        self._defining = paragraph
        self._lines: list[tuple[int, int]] = []
        self._pieces: list[str] = []
        self._text = ""
        self._origin = 0  # characters dropped before `_text`; `_at` and matches are relative to it
        self._length = 0
        self._at = 0
        self._retry_at = 0
        self._final = False
        self._title_at = -1
        self.refused = False
        """Whether the supposed title line is not a title; the scanner reads nothing from that line on."""
        self._ticks = BacktickRuns()
        self._terminators = TerminatorSearch()
        self._openers: list[_OpenBracket] = []
        self._waiting: list[Citation] = []
        self._released = 0
        self._found: list[Citation] = []

    def begin_line(self, offset: int, *, title: bool = False) -> None:
        """Announce that the next added content is a line with its end, at this offset of the source.

        `title` marks a line that may be the title of the preceding definition.
        """
        self._lines.append((self._length, offset))
        if title:
            self._title_at = self._length

    def add(self, text: str) -> None:
        """Add content."""
        self._pieces.append(text)
        self._length += len(text)

    def advance(self) -> list[Citation]:
        """Return the citations that the added content completed, in order."""
        if self._final or self._length >= self._retry_at:
            self._merge()
            self._scan()
            self._release()
        found, self._found = self._found, []
        return found

    def finish(self) -> list[Citation]:
        """Return the citations that the end of the block completed."""
        self._merge()
        self._final = True
        self._ticks.finish()
        found = self.advance()
        self._openers.clear()
        self._release()
        return found + self._found

    @property
    def settled(self) -> int:
        """Offset in the source up to which all citations are known."""
        at = self._origin + self._at
        young = bisect_left(self._openers, at - MAX_TOKEN_CHARS, key=_position)
        if young < len(self._openers):
            at = min(at, self._openers[young].at)
        offset = self._source_offset(at)
        return min(offset, self._waiting[0].start) if self._waiting else offset

    @property
    def awaits_title(self) -> bool:
        """Whether it is still undecided if the supposed title line is one."""
        return self._defining and self._origin + self._at <= self._title_at

    def is_definition(self) -> bool:
        """Return whether the content so far consists of complete link reference definitions only."""
        if not self._defining:
            return False
        self._merge()
        self._scan()
        rest = TextWindow(self._text, len(self._text), more=False)
        position = self._at
        while self._defining and rest.char_at(position) == "[":
            position = definition_end(rest, position) + 1
            if position <= 0:
                return False
        return self._defining and position >= rest.end

    def _merge(self) -> None:
        if not self._pieces:
            return
        added = "".join(self._pieces)
        self._pieces.clear()
        self._ticks.extend(added, self._origin + self._at)
        drop = self._at - _KEPT_CHARS
        if drop > _KEPT_CHARS:
            self._text = self._text[drop:]
            self._origin += drop
            self._at -= drop
            line = bisect_right(self._lines, (self._origin, 0)) - 1
            del self._lines[: max(line, 0)]
        self._text += added

    def _scan(self) -> None:
        if self.refused:
            return
        while self._defining:
            if not self._read_definition():
                return
        text = self._text
        while found := _SPECIAL.search(text, self._at):
            self._at = found.start()
            end = self._read_special(found[0])
            if end < 0:
                self._wait()
                return
            self._at = end
        self._at = len(text)

    def _wait(self) -> None:
        ahead = len(self._text) - self._at
        self._retry_at = self._length + 1 + ahead // 8

    def _read_definition(self) -> bool:
        """Read one definition, or end the paragraph's definitions; return False if more text is needed."""
        self.refused = self._origin + self._at == self._title_at
        if self.refused:
            return False
        window = self._window(MAX_DEFINITION_CHARS)
        char = window.char_at(self._at)
        if not char and window.more:
            return False
        end = definition_end(window, self._at) if char == "[" else NO_MATCH
        if end == NEED_MORE:
            self._wait()
            return False
        if end == NO_MATCH or end >= self._at + MAX_DEFINITION_CHARS:
            self._defining = False
            return True
        if len(self._definitions) < MAX_DEFINITIONS:
            self._definitions.add(normalize_label(self._text[self._at + 1 : label_end(window, self._at) - 1]))
        self._at = min(end + 1, len(self._text))
        return True

    def _read_special(self, special: str) -> int:
        match special:
            case "\\":
                return self._read_escape()
            case "<":
                return self._read_angle()
            case "!":
                return self._read_bang()
            case "[":
                return self._open_bracket(self._at, image=False)
            case "]":
                return self._close_bracket()
            case _:
                return self._read_code(len(special))

    def _read_angle(self) -> int:
        end = angle_end(self._window(MAX_LOOKAHEAD_CHARS), self._at, self._terminators, self._origin)
        if end == NO_MATCH:
            return self._at + 1
        if end != NEED_MORE and TAG.fullmatch(self._text, self._at, end):
            self.html.read_tag(self._text[self._at : end])
        return end

    def _window(self, chars: int) -> TextWindow:
        end = self._at + chars
        if end <= len(self._text):
            return TextWindow(self._text, end, more=False)
        return TextWindow(self._text, len(self._text), more=not self._final)

    def _read_escape(self) -> int:
        following = self._text[self._at + 1 : self._at + 2]
        if not following and not self._final:
            return NEED_MORE
        return self._at + (2 if following in _PUNCTUATION else 1)

    def _read_code(self, length: int) -> int:
        after = self._at + length
        if length >= MAX_LOOKAHEAD_CHARS:
            return self._at + MAX_LOOKAHEAD_CHARS
        if after == len(self._text) and not self._final:
            return NEED_MORE
        closing = self._ticks.find_closing(self._origin + after, length, self._origin + self._at + MAX_LOOKAHEAD_CHARS)
        if closing == NO_MATCH:
            return after
        return closing - self._origin + length if closing >= 0 else NEED_MORE

    def _read_bang(self) -> int:
        following = self._text[self._at + 1 : self._at + 2]
        if not following and not self._final:
            return NEED_MORE
        return self._open_bracket(self._at + 1, image=True) if following == "[" else self._at + 1

    def _open_bracket(self, at: int, *, image: bool) -> int:
        self._openers.append(_OpenBracket(self._origin + at, image, self._released + len(self._waiting)))
        return at + 1

    def _close_bracket(self) -> int:
        self._drop_old_openers()
        if not self._openers:
            return self._at + 1
        opener = self._openers[-1]
        end = NO_MATCH if opener.holds_link and not opener.image else self._link_end(opener)
        if end == NEED_MORE:
            return NEED_MORE
        self._openers.pop()
        outer = self._openers[-1] if self._openers else _OpenBracket(0, image=False, first=0)
        outer.holds_bracket = True
        if end == NO_MATCH:
            outer.holds_link |= opener.holds_link
            self._add_citation(opener)
            end = self._at + 1
        elif opener.image:
            del self._waiting[opener.first - self._released :]
        else:
            outer.holds_link = True
            inside = slice(opener.first - self._released, None)
            self._waiting[inside] = [msgspec.structs.replace(one, in_link=True) for one in self._waiting[inside]]
        self._release()
        return end

    def _add_citation(self, opener: _OpenBracket) -> None:
        if opener.holds_link or self.html.hides_text or self._origin + self._at - opener.at > MAX_TOKEN_CHARS:
            return
        token = TOKEN.fullmatch(self._text, opener.at - self._origin, self._at + 1)
        sids = parse_sids(token[0]) if token else ()
        if token and sids:
            start = self._source_offset(opener.at)
            self._waiting.append(Citation(start, start + len(token[0]), sids, self.html.in_link))

    def _release(self) -> None:
        """Move the citations that no open bracket encloses to the results."""
        self._drop_old_openers()
        sure = self._openers[0].first - self._released if self._openers else len(self._waiting)
        if sure > 0:
            self._found += self._waiting[:sure]
            del self._waiting[:sure]
            self._released += sure

    def _drop_old_openers(self) -> None:
        oldest = self._origin + self._at - MAX_LOOKAHEAD_CHARS
        if self._openers and self._openers[0].at < oldest:
            del self._openers[: bisect_left(self._openers, oldest, key=_position)]

    def _link_end(self, opener: _OpenBracket) -> int:
        window = self._window(MAX_LOOKAHEAD_CHARS)
        following = window.char_at(self._at + 1)
        if not following and window.more:
            return NEED_MORE
        if following == "(":
            end = inline_target_end(window, self._at + 1)
            if end != NO_MATCH:
                return end
        return self._reference_end(opener, window, following) if self._definitions else NO_MATCH

    def _reference_end(self, opener: _OpenBracket, window: TextWindow, following: str) -> int:
        end = label_end(window, self._at + 1) if following == "[" else NO_MATCH
        if end == NEED_MORE:
            return NEED_MORE
        name = normalize_label(self._text[self._at + 2 : end - 1]) if end >= 0 else ""
        if name:
            return end if name in self._definitions else NO_MATCH
        start = opener.at - self._origin + 1
        if opener.holds_bracket or self._at - start > MAX_LABEL_CHARS:
            return NO_MATCH
        if normalize_label(self._text[start : self._at]) not in self._definitions:
            return NO_MATCH
        return end if end == self._at + 3 else self._at + 1

    def _source_offset(self, at: int) -> int:
        start, offset = self._lines[bisect_right(self._lines, at, key=_content_start) - 1]
        return offset + at - start


def _position(opener: _OpenBracket) -> int:
    return opener.at


def _content_start(line: tuple[int, int]) -> int:
    return line[0]
