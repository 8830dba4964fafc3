"""Prints a streamed reply: each complete block of the answer, and thinking as one line."""

from collections.abc import Callable, Iterable
from typing import Final

from timeloom.cli.chat.display.answer import AnswerStream
from timeloom.cli.chat.display.format import format_duration
from timeloom.cli.chat.display.markdown_blocks import MarkdownBlock
from timeloom.cli.chat.display.transcript import Transcript
from timeloom.core.payload import Text
from timeloom.core.sources import SourceRow
from timeloom.core.stream.live_reply import LiveDelta

MAX_NOTE_CHARS: Final = 400
"""Maximum length of the note that is shown while the model writes it; only its end is kept."""


class StreamingReply:
    """One streamed reply of a model, until it is stored or withdrawn."""

    def __init__(
        self, transcript: Transcript, sources: Callable[[], Iterable[SourceRow]], now: Callable[[], float]
    ) -> None:
        self._transcript = transcript
        self._sources = sources
        self._now = now
        self._answers: dict[int, AnswerStream] = {}
        self._note = ""
        self._written_chars = 0
        self._thinking_printed = False
        self._ignores_deltas = False
        self._thinking_since: float | None = None
        self._thinking: list[str] = []

    @property
    def thinking(self) -> str:
        """The thinking received so far."""
        return "".join(self._thinking)

    def add_delta(self, delta: LiveDelta) -> None:
        """Add a piece of text that the model streamed."""
        if self._ignores_deltas:
            return
        match delta.channel:
            case "thinking":
                self._thinking_since = self._now() if self._thinking_since is None else self._thinking_since
                self._thinking.append(delta.text)
                return
            case "answer":
                self.fold_thinking()
                self._print_answer(delta)
            case "timeline_text" if not delta.file:
                self._note = (self._note + delta.text)[-MAX_NOTE_CHARS:]
            case _:
                self._written_chars += len(delta.text)
        self.fold_thinking()

    def fold_thinking(self, *, stored: bool = False) -> None:
        """Print one line for finished thinking; `stored` prints it even if no thinking was streamed."""
        if self._thinking_since is not None:
            self._transcript.print_message(f"· thought for {format_duration(self._now() - self._thinking_since)}")
            self._thinking_printed = True
        elif stored and not self._thinking_printed:
            self._transcript.print_message("· thought")
            self._thinking_printed = True
        self._thinking_since = None

    def clear_note(self) -> None:
        """Clear the live note: it is stored, and the caller prints it."""
        self._note = ""

    def complete_answer(self, text: Text) -> bool:
        """Print the rest of the stored answer; returns False if it was not streamed, so the caller must print it."""
        self.fold_thinking()
        stream = next((one for one in self._answers.values() if one.is_same_as(text)), None)
        if stream is None:
            self.withdraw()
            return False
        for block in stream.close():
            self._transcript.print_block(block)
        self._answers.clear()
        return True

    def withdraw(self) -> None:
        """Discard the live text, and print a remark if parts of the withdrawn answer were printed."""
        if any(stream.block_count for stream in self._answers.values()):
            self._transcript.print_message("(withdrawn: that was not the answer)")
        self._answers.clear()
        self._note = ""
        self._written_chars = 0

    def interrupt(self) -> None:
        """Print the text received before the user interrupted the reply, and ignore all later text."""
        self.fold_thinking()
        for stream in self._answers.values():
            for block in stream.close():
                self._transcript.print_block(block)
            self._transcript.print_message("(broken off)")
        self._answers.clear()
        self._ignores_deltas = True

    @property
    def live(self) -> MarkdownBlock | None:
        """The text that was received and not printed yet."""
        block = next((live for stream in self._answers.values() if (live := stream.live)), None)
        return MarkdownBlock(self._note) if block is None and self._note else block

    @property
    def status(self) -> str:
        """The model's activity in a few words; empty before the first text."""
        if self._thinking_since is not None:
            return f"thinking {format_duration(self._now() - self._thinking_since)}"
        if self._written_chars:
            return f"writing, {self._written_chars:,} characters"
        return "answering" if self._answers else ""

    def _print_answer(self, delta: LiveDelta) -> None:
        if delta.index not in self._answers:
            self._answers[delta.index] = AnswerStream(self._sources(), links=self._transcript.renderer.links)
        for block in self._answers[delta.index].feed(delta.text):
            self._transcript.print_block(block)
