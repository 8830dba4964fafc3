"""Citations in Markdown: the tokens that CommonMark shows as text, found while the text is being written."""

import re
from typing import Final

from timeloom.core.stream.citation_tokens import MAX_TOKEN_CHARS, TOKEN, Citation
from timeloom.core.stream.markdown_blocks import MAX_HTML_END_CHARS, Blocks, Line
from timeloom.core.stream.markdown_inline import InlineScanner

MAX_LINE_CHARS: Final = 10_000
"""How much of a line decides what it is. Smaller would misread a fence with a longer info string; larger lets a long
line that starts like HTML hold back more of the stream."""

_LINE_END: Final = re.compile(r"\r\n|\n|\r")


class MarkdownFinder:
    """Finds citations in a Markdown document.

    A token waits as long as it may still turn out to be code, part of a tag or of a link's target: as a rule for the
    next character; for the end of the line, if that starts like a heading, a fence or HTML; at most for the end of the
    paragraph, if a backtick run, a `<tag` or a `[` stands open before it.
    """

    def __init__(self) -> None:
        self._blocks = Blocks()
        self._definitions: set[str] = set()
        self._inline: InlineScanner | None = None
        self._found: list[Citation] = []
        self._carriage_return = False
        self._offset = 0
        self._line_start = 0
        self._head: list[str] = []
        self._head_chars = 0
        self._line: Line | None = None
        self._waits = False
        self._tail = ""

    @property
    def settled(self) -> int:
        """The offset up to which it is known which tokens are citations."""
        here = self._offset if self._line else self._line_start
        return min(here, self._inline.settled) if self._inline else here

    def feed(self, text: str) -> list[Citation]:
        """The citations that this text settled, in order."""
        if self._carriage_return and text:
            self._carriage_return = False
            text = "\r" + text
        if text.endswith("\r"):
            self._carriage_return = True
            text = text[:-1]
        start = 0
        for line_end in _LINE_END.finditer(text):
            self._add(text[start : line_end.start()])
            self._end_line(len(line_end[0]))
            start = line_end.end()
        self._add(text[start:])
        return self._take_found()

    def close(self) -> list[Citation]:
        """The citations that the end of the document settled."""
        self._end_line(1 if self._carriage_return else 0)
        self._carriage_return = False
        self._finish_inline()
        return self._take_found()

    def _take_found(self) -> list[Citation]:
        if self._inline:
            self._found += self._inline.advance()
        found, self._found = self._found, []
        return found

    def _add(self, text: str) -> None:
        self._offset += len(text)
        if self._line:
            self._go_on(self._line, text)
            return
        self._head.append(text)
        self._head_chars += len(text)
        if self._head_chars > MAX_LINE_CHARS:
            self._decide("".join(self._head))
        elif not self._waits:
            recent = self._tail + text
            self._tail = recent[-MAX_TOKEN_CHARS:]
            if TOKEN.search(recent):
                self._try_early("".join(self._head))

    def _end_line(self, chars: int) -> None:
        if self._line is None:
            self._decide("".join(self._head))
        if self._line and self._line.kind == "heading":
            self._finish_inline()
        elif self._inline:
            self._inline.add("\n")
            self._found += self._inline.advance()
        self._offset += chars
        self._line_start = self._offset
        self._head.clear()
        self._head_chars = 0
        self._line = None
        self._waits = False
        self._tail = ""

    def _decide(self, text: str) -> None:
        """Takes the line for what it is by its beginning."""
        head, rest = text[:MAX_LINE_CHARS], text[MAX_LINE_CHARS:]
        line = self._blocks.take(head, self._is_definition)
        if rest and line.kind == "heading":
            line = Line("heading", line.start, len(head))
        self._begin(line, head)
        self._go_on(line, rest)

    def _try_early(self, head: str) -> None:
        """Takes the line for what it is before its end is there, if its end cannot change that."""
        blocks = self._blocks.copy()
        line = blocks.take(head, self._is_definition)
        self._waits = not line.decided
        if line.decided:
            self._blocks = blocks
            self._begin(line, head)

    def _is_definition(self) -> bool:
        return self._inline is not None and self._inline.is_definition()

    def _begin(self, line: Line, head: str) -> None:
        self._line = line
        self._tail = head[-MAX_HTML_END_CHARS:]
        if line.kind != "continued":
            self._finish_inline()
        if line.kind == "raw":
            return
        if self._inline is None:
            self._inline = InlineScanner(self._definitions, paragraph=line.kind == "new")
        self._inline.begin_line(self._line_start + line.start)
        self._inline.add(head[line.start : line.end])

    def _go_on(self, line: Line, text: str) -> None:
        if line.kind != "raw" and self._inline:
            self._inline.add(text)
        elif end := self._blocks.html_end:
            recent = self._tail + text
            self._tail = recent[-MAX_HTML_END_CHARS:]
            if end.search(recent):
                self._blocks.end_html()

    def _finish_inline(self) -> None:
        if self._inline:
            self._found += self._inline.finish()
            self._inline = None
