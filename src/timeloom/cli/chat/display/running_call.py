"""Shows a running tool call and prints its result."""

from dataclasses import dataclass, field
from typing import Final

from timeloom.cli.chat.display.format import duration
from timeloom.cli.chat.display.labels import error_in, result_words
from timeloom.cli.chat.display.transcript import Page
from timeloom.cli.sanitize import one_line
from timeloom.core.blocks import AnyBlock
from timeloom.core.ids import CallId

MAX_TAIL_CHARS: Final = 400
"""Maximum length of tool output that is kept to show progress; only its end is kept."""


@dataclass(slots=True)
class RunningCall:
    """A tool call with its streamed output and its results so far."""

    call_id: CallId
    words: str
    since: float
    said: str = ""
    results: list[AnyBlock] = field(default_factory=list[AnyBlock])

    def hear(self, text: str) -> None:
        """Add output that the tool streamed."""
        self.said = (self.said + text)[-MAX_TAIL_CHARS:]

    def doing(self, now: float) -> str:
        """Return the call, its duration and its last line of output, on one line."""
        last = self.said.rstrip().rpartition("\n")[2]
        return f"{self.words} {duration(now - self.since)}{f' · {last}' if last else ''}"

    def is_over(self, block: AnyBlock | None) -> bool:
        """Return whether the call is complete: it has results, and the next block belongs to something else."""
        return bool(self.results) and getattr(block, "tool_call_id", None) != self.call_id

    def close(self, page: Page, now: float) -> None:
        """Print the result or the error of the call."""
        took = duration(now - self.since)
        error = next((found for block in self.results if (found := error_in(block))), None)
        if error:
            page.line(f"✗ {self.words}", "bad", end=f" · {took}")
            page.say(f"  {one_line(error.message, 300)}")
            return
        came = result_words(self.results)
        page.line(f"✓ {self.words}", end=f" · {took}{f' · {came}' if came else ''}")
