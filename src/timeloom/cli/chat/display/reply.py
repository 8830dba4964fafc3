"""Prints a streamed reply: each complete block of the answer, and thinking as one line."""

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
"""Maximum length of the note that is shown while the model writes it; only its end is kept."""


class ArrivingReply:
    """One streamed reply of a model, until it is stored or withdrawn."""

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
        """The thinking received so far."""
        return "".join(self._thoughts)

    def take(self, delta: LiveDelta) -> None:
        """Add a piece of text that the model streamed."""
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
        """Print one line for finished thinking; `stored` prints it even if no thinking was streamed."""
        if self._thinking_since is not None:
            self._page.say(f"· thought for {duration(self._now() - self._thinking_since)}")
            self._folded = True
        elif told and not self._folded:
            self._page.say("· thought")
            self._folded = True
        self._thinking_since = None

    def noted(self) -> None:
        """Clear the live note: it is stored, and the caller prints it."""
        self._noting = ""

    def complete(self, text: Text) -> bool:
        """Print the rest of the stored answer; returns False if it was not streamed, so the caller must print it."""
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
        """Discard the live text, and print a remark if parts of the withdrawn answer were printed."""
        if any(stream.shown for stream in self._answers.values()):
            self._page.say("(withdrawn: that was not the answer)")
        self._answers.clear()
        self._noting = ""
        self._written = 0

    def break_off(self) -> None:
        """Print the text received before the user interrupted the reply, and ignore all later text."""
        self.fold_thinking()
        for stream in self._answers.values():
            for block in stream.close():
                self._page.block(block)
            self._page.say("(broken off)")
        self._answers.clear()
        self._deaf = True

    @property
    def live(self) -> MarkdownBlock | None:
        """The text that was received and not printed yet."""
        block = next((live for stream in self._answers.values() if (live := stream.live)), None)
        return MarkdownBlock(self._noting) if block is None and self._noting else block

    @property
    def doing(self) -> str:
        """The model's activity in a few words; empty before the first text."""
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
