"""A reply on its way: the answer printed as its blocks are complete, thinking folded into a line."""

from collections.abc import Callable, Iterable
from typing import Final

from timeloom.cli.chat.display.answer import AnswerStream
from timeloom.cli.chat.display.format import duration
from timeloom.cli.chat.display.markdown_blocks import MarkdownBlock
from timeloom.cli.chat.display.transcript import Page
from timeloom.core.payload import Text
from timeloom.core.sources import SourceRow
from timeloom.core.stream.live_reply import LiveDelta

MAX_NOTE_CHARS: Final = 400
"""How much of a note is kept to show it while it is written."""


class ArrivingReply:
    """One reply of a model, from its first word until it is stored or withdrawn."""

    def __init__(self, page: Page, sources: Callable[[], Iterable[SourceRow]], now: Callable[[], float]) -> None:
        self._page = page
        self._sources = sources
        self._now = now
        self._answers: dict[int, AnswerStream] = {}
        self._noting = ""
        self._written = 0
        self._folded = False
        self._deaf = False
        self._thinking_since: float | None = None
        self._thoughts: list[str] = []

    @property
    def thoughts(self) -> str:
        """What was thought so far."""
        return "".join(self._thoughts)

    def take(self, delta: LiveDelta) -> None:
        """Takes text that the model writes."""
        if self._deaf:
            return
        match delta.channel:
            case "thinking":
                self._thinking_since = self._now() if self._thinking_since is None else self._thinking_since
                self._thoughts.append(delta.text)
                return
            case "answer":
                self.fold_thinking()
                self._answer(delta)
            case "timeline_text":
                self._noting = (self._noting + delta.text)[-MAX_NOTE_CHARS:]
            case _:
                self._written += len(delta.text)
        self.fold_thinking()

    def fold_thinking(self, *, told: bool = False) -> None:
        """Prints one line for what was thought; `told` where it is known to have been, though nothing came of it."""
        if self._thinking_since is not None:
            self._page.say(f"· thought for {duration(self._now() - self._thinking_since)}")
            self._folded = True
        elif told and not self._folded:
            self._page.say("· thought")
            self._folded = True
        self._thinking_since = None

    def noted(self) -> None:
        """The note is stored, and printed by whoever heard so."""
        self._noting = ""

    def complete(self, text: Text) -> bool:
        """Prints what is left of the answer that was stored; False where it did not come this way."""
        self.fold_thinking()
        stream = next((one for one in self._answers.values() if one.is_of(text)), None)
        if stream is None:
            self.withdraw()
            return False
        for block in stream.close():
            self._page.block(block)
        self._answers.clear()
        return True

    def withdraw(self) -> None:
        """Says that what was shown of an answer is none; what was not printed yet goes."""
        if any(stream.shown for stream in self._answers.values()):
            self._page.say("(withdrawn: that was not the answer)")
        self._answers.clear()
        self._noting = ""
        self._written = 0

    def break_off(self) -> None:
        """Prints what had come before the user changed course; what still comes is of no interest."""
        self.fold_thinking()
        for stream in self._answers.values():
            for block in stream.close():
                self._page.block(block)
            self._page.say("(broken off)")
        self._answers.clear()
        self._deaf = True

    @property
    def live(self) -> MarkdownBlock | None:
        """What is being written and not printed yet."""
        block = next((live for stream in self._answers.values() if (live := stream.live)), None)
        return MarkdownBlock(self._noting) if block is None and self._noting else block

    @property
    def doing(self) -> str:
        """What the model does, in a few words; empty where it has not begun."""
        if self._thinking_since is not None:
            return f"thinking {duration(self._now() - self._thinking_since)}"
        if self._written:
            return f"writing, {self._written:,} characters"
        return "answering" if self._answers else ""

    def _answer(self, delta: LiveDelta) -> None:
        if delta.index not in self._answers:
            self._answers[delta.index] = AnswerStream(self._sources(), links=self._page.drawing.links)
        for block in self._answers[delta.index].feed(delta.text):
            self._page.block(block)
