"""Shows a running tool call and prints its result."""

from dataclasses import dataclass, field
from typing import Final

from timeloom.cli.chat.display.format import format_duration
from timeloom.cli.chat.display.labels import find_error, summarize_results
from timeloom.cli.chat.display.transcript import Transcript
from timeloom.cli.sanitize import one_line
from timeloom.core.blocks import AnyBlock
from timeloom.core.ids import CallId

MAX_TAIL_CHARS: Final = 400
"""Maximum length of tool output that is kept to show progress; only its end is kept."""


@dataclass(slots=True)
class RunningCall:
    """A tool call with its streamed output and its results so far."""

    call_id: CallId
    label: str
    started_at: float
    output: str = ""
    results: list[AnyBlock] = field(default_factory=list[AnyBlock])

    def add_output(self, text: str) -> None:
        """Add output that the tool streamed."""
        self.output = (self.output + text)[-MAX_TAIL_CHARS:]

    def status_line(self, now: float) -> str:
        """Return the call, its duration and its last line of output, on one line."""
        last = self.output.rstrip().rpartition("\n")[2]
        return f"{self.label} {format_duration(now - self.started_at)}{f' · {last}' if last else ''}"

    def is_over(self, block: AnyBlock | None) -> bool:
        """Return whether the call is complete: it has results, and the next block belongs to something else."""
        return bool(self.results) and getattr(block, "tool_call_id", None) != self.call_id

    def print_result(self, transcript: Transcript, now: float) -> None:
        """Print the result or the error of the call."""
        took = format_duration(now - self.started_at)
        error = next((found for block in self.results if (found := find_error(block))), None)
        if error:
            transcript.print_line(f"✗ {self.label}", "bad", end=f" · {took}")
            transcript.print_message(f"  {one_line(error.message, 300)}")
            return
        summary = summarize_results(self.results)
        transcript.print_line(f"✓ {self.label}", end=f" · {took}{f' · {summary}' if summary else ''}")
