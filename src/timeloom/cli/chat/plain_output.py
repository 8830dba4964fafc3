"""Prints the events of `timeloom chat` as plain text or as JSON lines."""

import os
import sys
from typing import Final, Protocol

import click
import msgspec

from timeloom.cli.chat.display.labels import (
    UNFORMATTED_NOTE,
    describe_compaction,
    find_error,
    format_channel,
    format_params_on_one_line,
)
from timeloom.cli.chat.terminal.approvals import ApprovalQuestion
from timeloom.cli.sanitize import one_line, sanitize
from timeloom.core.blocks import (
    ChannelText,
    CompactionEnded,
    Completion,
    ModelAnswered,
    Notes,
    Notice,
    PlanRecorded,
    ResultDigest,
    ResultStatus,
    ToolCall,
    TurnEnded,
)
from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef, Text
from timeloom.core.plans.marks import marker
from timeloom.core.sources import SourcesPool
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.core.timeline import Entry
from timeloom.runtime.context.fit_window import CompactionEvent
from timeloom.runtime.turn.loop import TurnOutcome
from timeloom.wire.block_json import encode_block

MAX_SOURCE_CHARS: Final = 300
"""Longest line of a cited source. Less cuts usual addresses; more lets one address fill the screen."""


class ChatOutput(Protocol):
    """Prints the events of a conversation."""

    def on_start(self, conversation: ConversationId) -> None:
        """Print which conversation starts or resumes."""
        ...

    def on_delta(self, delta: LiveDelta) -> None:
        """Print a piece of streamed text."""
        ...

    def on_block(self, entry: Entry) -> None:
        """Print a stored entry."""
        ...

    def on_compaction(self, compaction: CompactionEvent) -> None:
        """Print that the conversation is being compacted, or was."""
        ...

    def on_question(self, question: ApprovalQuestion) -> None:
        """Print the call that a person must approve or refuse before the turn can continue."""
        ...

    def on_pause(self, reason: TurnOutcome) -> None:
        """Print that the turn ended or waits for approval."""
        ...

    def on_sources(self, pool: SourcesPool) -> None:
        """Print the sources that the newest answer cites."""
        ...


class JsonOutput:
    """Prints every event as one JSON object per line on standard output."""

    def on_start(self, conversation: ConversationId) -> None:
        self._print({"event": "chat.start", "conversation_id": conversation})

    def on_delta(self, delta: LiveDelta) -> None:
        self._print({"event": "chat.delta", "channel": delta.channel, "index": delta.index, "text": delta.text})

    def on_block(self, entry: Entry) -> None:
        self._print({"event": "chat.block", "id": entry.seq, "block": msgspec.Raw(encode_block(entry))})

    def on_compaction(self, compaction: CompactionEvent) -> None:
        self._print({"event": "chat.compaction", **msgspec.structs.asdict(compaction)})

    def on_question(self, question: ApprovalQuestion) -> None:
        self._print({"event": "chat.approval", **msgspec.structs.asdict(question)})

    def on_pause(self, reason: TurnOutcome) -> None:
        self._print({"event": "chat.complete", "reason": reason})

    def on_sources(self, pool: SourcesPool) -> None:
        # The blocks have them.
        pass

    def _print(self, event: dict[str, object]) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
        sys.stdout.buffer.flush()


class PlainOutput:
    """Prints the answer on standard output and the agent's activity on standard error.

    The answer is streamed if standard output is a terminal. Control characters are removed from all text.
    """

    def __init__(self) -> None:
        self._streams = sys.stdout.isatty()
        self._uses_dim = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self._answering = False
        self._cited: tuple[int, ...] = ()

    def on_start(self, conversation: ConversationId) -> None:
        click.echo(f"conversation {conversation}", err=True)

    def on_delta(self, delta: LiveDelta) -> None:
        if delta.channel == "answer" and self._streams:
            self._answering = True
            click.echo(sanitize(delta.text.replace("\r", ""), keep_tabs=True), nl=False)

    def on_block(self, entry: Entry) -> None:
        match entry.block:
            case Completion(text=text, sources_used=cited):
                self._end_answer(entry, text)
                self._cited = cited
            case CompactionEnded():
                click.echo(sanitize(f"  · {describe_compaction(entry.block)}"), err=True)
            case ToolCall() | Notice() | ModelAnswered() if self._answering and _withdraws_answer(entry.block):
                # The streamed text turned out not to be the answer.
                self._answering = False
                click.echo(" (withdrawn)", err=True)
            case _:
                pass
        for line in _printed_lines(entry):
            plain = sanitize(line)
            click.echo(click.style(plain, dim=True) if self._uses_dim else plain, err=True)

    def on_compaction(self, compaction: CompactionEvent) -> None:
        if compaction.status == "completed":
            figures = f"{compaction.before_tokens} tokens became {compaction.after_tokens}"
            click.echo(f"  · older parts of the conversation were summarized: {figures}", err=True)

    def on_question(self, question: ApprovalQuestion) -> None:
        pass

    def on_pause(self, reason: TurnOutcome) -> None:
        if reason not in ("completed", "exited", "waiting"):
            click.echo(f"the turn ended: {reason}", err=True)

    def on_sources(self, pool: SourcesPool) -> None:
        for row in pool.select(self._cited):
            place = row.url or row.artifact_path
            title = row.title if row.title != place else ""
            click.echo(f"  {one_line(f'[{row.sid}] {title} {place}', MAX_SOURCE_CHARS)}", err=True)
        self._cited = ()

    def _end_answer(self, entry: Entry, text: Text) -> None:
        if self._answering:
            click.echo("")
        else:
            shown = f"(the answer is too long to print: {entry.path})" if isinstance(text, BlobRef) else text
            click.echo(sanitize(shown, keep_tabs=True))
        self._answering = False


def _withdraws_answer(block: ToolCall | Notice | ModelAnswered) -> bool:
    return not isinstance(block, ModelAnswered) or bool(block.error)


def _printed_lines(entry: Entry) -> list[str]:
    if isinstance(entry.block, ChannelText):
        return [f"  {line}" for line in format_channel(entry, entry.block)]
    return _activity_lines(entry)


def _activity_lines(entry: Entry) -> list[str]:
    match entry.block:
        case Notes(text=str() as text):
            return [f"  {one_line(text)}"]
        case ToolCall(tool_id=tool_id, params=params, by=str()):
            return [f"    ↳ {tool_id} {format_params_on_one_line(params, 120)}".rstrip()]
        case ToolCall(tool_id=tool_id, params=params):
            return [f"  → {tool_id} {format_params_on_one_line(params, 120)}".rstrip()]
        case ModelAnswered(purpose="decision", error=error, detail=detail) if error:
            return [f"  … {error}{f': {detail[:200]}' if detail else ''}"]
        case ResultDigest() | ResultStatus() as result if failure := find_error(result):
            return [f"  ✗ {failure.message[:200]}"]
        case Notice(text=text):
            return [f"  ! {text[:200]}"]
        case Completion(unformatted=True):
            return [f"  ! {UNFORMATTED_NOTE}"]
        case PlanRecorded(snapshot=plan):
            steps = zip(plan.steps, plan.statuses, strict=True)
            return [f"  {marker(one)} {' '.join(step.split())}" for step, one in steps]
        case TurnEnded(reason=reason, text=text) if reason != "completed" and text:
            return [f"  {text[:300]}"]
        case _:
            return []
