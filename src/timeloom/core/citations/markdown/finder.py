"""Finds citation tokens that CommonMark shows as text, while the Markdown text is being written."""

import re
from typing import Final

from timeloom.core.citations.html import HtmlFinder
from timeloom.core.citations.markdown.blocks import MAX_HTML_END_CHARS, BlockParser, ClassifiedLine
from timeloom.core.citations.markdown.inline import InlineScanner
from timeloom.core.citations.tokens import MAX_TOKEN_CHARS, TOKEN, Citation

MAX_LINE_CHARS: Final = 10_000
"""Characters of a line that decide its kind. A smaller limit misreads a fence with a longer info string; a larger one
lets a long line that starts like HTML hold back more of the stream."""

_LINE_END: Final = re.compile(r"\r\n|\n|\r")


class _TitleGuess:
    """A line taken for the title of a definition: the state to restore if it is not one, and the text since."""

    __slots__ = ("blocks", "inline", "read", "start")

    def __init__(self, start: int, blocks: BlockParser, inline: InlineScanner, line: str) -> None:
        self.start = start
        self.blocks = blocks
        self.inline = inline
        self.read = [line]


class MarkdownFinder:
    """Finds citations in a Markdown document.

    A token is held back while it may still turn out to be code or part of a tag or link target. Usually that takes one
    more character. If the line starts like a heading, a fence or HTML, it takes until the end of the line. If a
    backtick run, a `<tag` or a `[` is open before the token, it takes at most until the end of the paragraph.
    """

    def __init__(self) -> None:
        self._blocks = BlockParser()
        self._definitions: set[str] = set()
        self._html = HtmlFinder(embedded=True)
        self._inline: InlineScanner | None = None
        self._guess: _TitleGuess | None = None
        self._found: list[Citation] = []
        self._carriage_return = False
        self._offset = 0
        self._line_start = 0
        self._head: list[str] = []
        self._head_chars = 0
        self._line: ClassifiedLine | None = None
        self._must_wait = False
        self._tail = ""

    @property
    def settled(self) -> int:
        """Offset up to which all citations are known."""
        here = self._offset if self._line else self._line_start
        if self._line and self._line.kind == "html":
            return min(here, self._html.settled)
        return min(here, self._inline.settled) if self._inline else here

    def feed(self, text: str) -> list[Citation]:
        """Return the citations that this text completed, in order."""
        if self._carriage_return and text:
            self._carriage_return = False
            text = "\r" + text
        if text.endswith("\r"):
            self._carriage_return = True
            text = text[:-1]
        self._read(text)
        return self._drain_found()

    def close(self) -> list[Citation]:
        """Return the citations that the end of the document completed."""
        text = "\r" if self._carriage_return else ""
        self._carriage_return = False
        while True:
            self._read(text)
            self._end_line("")
            self._finish_inline()
            if not self._guess or not (text := self._retract_guess(self._guess)):
                return self._drain_found()

    def _drain_found(self) -> list[Citation]:
        if self._inline:
            self._found += self._inline.advance()
        found, self._found = self._found, []
        return found

    def _read(self, text: str) -> None:
        """Read the text, and read again the text after a wrong guess."""
        unread = [(text, 0)]
        while unread:
            text, at = unread.pop()
            while at < len(text):
                line_end = _LINE_END.search(text, at)
                self._add_to_line(text[at : line_end.start() if line_end else None])
                if line_end:
                    self._end_line(line_end[0])
                at = line_end.end() if line_end else len(text)
                if self._guess and (again := self._retract_guess(self._guess)):
                    unread.append((text, at))
                    text, at = again, 0

    def _retract_guess(self, guess: _TitleGuess) -> str:
        """Undo the guess if the line is not a title, and return the text to read again; else return an empty string."""
        self._found += guess.inline.advance()
        if not guess.inline.refused:
            self._guess = guess if guess.inline.awaits_title else None
            return ""
        self._guess = self._inline = None
        self._blocks = guess.blocks
        self._offset = guess.start
        self._forget_line()
        return "".join(guess.read)

    def _add_to_line(self, text: str) -> None:
        self._offset += len(text)
        if self._guess:
            self._guess.read.append(text)
        if self._line:
            self._continue_line(self._line, text)
            return
        self._head.append(text)
        self._head_chars += len(text)
        if self._head_chars > MAX_LINE_CHARS:
            self._classify("".join(self._head))
        elif not self._must_wait:
            recent = self._tail + text
            self._tail = recent[-MAX_TOKEN_CHARS:]
            if TOKEN.search(recent):
                self._classify_early("".join(self._head))

    def _end_line(self, line_end: str) -> None:
        if self._line is None:
            self._classify("".join(self._head))
        if self._guess:
            self._guess.read.append(line_end)
        if self._line and self._line.kind == "heading":
            self._finish_inline()
        elif self._line and self._line.kind == "html":
            self._feed_html("\n")
        elif self._inline:
            self._inline.add("\n")
            self._found += self._inline.advance()
        self._offset += len(line_end)
        self._forget_line()

    def _forget_line(self) -> None:
        self._line_start = self._offset
        self._head.clear()
        self._head_chars = 0
        self._line = None
        self._must_wait = False
        self._tail = ""

    def _classify(self, text: str) -> None:
        """Classify the line by its beginning."""
        head, rest = text[:MAX_LINE_CHARS], text[MAX_LINE_CHARS:]
        line = self._blocks.classify_line(head, self._is_definition)
        if rest and line.kind == "heading":
            line = ClassifiedLine("heading", line.start, len(head))
        self._begin_line(line, head)
        self._continue_line(line, rest)
        if self._guess and line.kind == "title":
            self._guess.read.append(rest)

    def _classify_early(self, head: str) -> None:
        """Classify the line before its end arrives, if the end cannot change its kind."""
        blocks = self._blocks.copy()
        line = blocks.classify_line(head, self._is_definition)
        self._must_wait = not line.decided
        if line.decided:
            self._blocks = blocks
            self._begin_line(line, head)

    def _is_definition(self) -> bool:
        return self._inline is not None and self._inline.is_definition()

    def _begin_line(self, line: ClassifiedLine, head: str) -> None:
        self._line = line
        self._tail = head[-MAX_HTML_END_CHARS:]
        if line.kind not in ("continued", "title"):
            self._finish_inline()
        if line.kind != "html":
            self._html.end_block()
        if line.kind == "raw" or self._rereads:
            return
        if line.kind == "html":
            self._html.begin_at(self._line_start + line.start)
            self._feed_html(head[line.start :])
            return
        if self._inline is None:
            self._inline = InlineScanner(self._definitions, self._html.copy(), paragraph=line.kind == "new")
        if line.kind == "title":
            blocks = self._blocks.copy()
            blocks.end_leaf()
            self._guess = _TitleGuess(self._line_start, blocks, self._inline, head)
        self._inline.begin_line(self._line_start + line.start, title=line.kind == "title")
        self._inline.add(head[line.start : line.end])

    @property
    def _rereads(self) -> bool:
        """Whether a guess proved wrong, so that this text is read again."""
        return self._guess is not None and self._guess.inline.refused

    def _feed_html(self, text: str) -> None:
        if not self._rereads:
            self._found += self._html.feed(text)

    def _continue_line(self, line: ClassifiedLine, text: str) -> None:
        if line.kind == "html":
            self._feed_html(text)
        if line.kind not in ("raw", "html") and self._inline:
            self._inline.add(text)
        elif end := self._blocks.html_end:
            recent = self._tail + text
            self._tail = recent[-MAX_HTML_END_CHARS:]
            if end.search(recent):
                self._blocks.end_leaf()

    def _finish_inline(self) -> None:
        if self._inline:
            self._found += self._inline.finish()
            self._html.end_paragraph(self._inline.html)
            self._inline = None
