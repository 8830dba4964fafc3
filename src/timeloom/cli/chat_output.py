"""What `timeloom chat` prints: the answer as it is written and the tools as they run, or all events as JSON."""

import sys
from typing import Protocol

import click
import msgspec

from timeloom.core.blocks import (
    Completion,
    EndReason,
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
from timeloom.core.timeline import Entry
from timeloom.runtime.ask_model import LiveDelta
from timeloom.wire.block_json import encode_block


class Output(Protocol):
    """Where the events of a conversation go."""

    def begin(self, conversation: ConversationId) -> None:
        """The conversation that is held."""
        ...

    def delta(self, delta: LiveDelta) -> None:
        """Text on its way."""
        ...

    def block(self, entry: Entry) -> None:
        """An entry that is stored."""
        ...

    def end(self, reason: EndReason) -> None:
        """The turn is over."""
        ...


class JsonOutput:
    """Every event as a JSON object on a line of its own."""

    def begin(self, conversation: ConversationId) -> None:
        self._print({"event": "chat.start", "conversation_id": conversation})

    def delta(self, delta: LiveDelta) -> None:
        self._print({"event": "chat.delta", "channel": delta.channel, "index": delta.index, "text": delta.text})

    def block(self, entry: Entry) -> None:
        self._print({"event": "chat.block", "id": entry.seq, "block": msgspec.Raw(encode_block(entry))})

    def end(self, reason: EndReason) -> None:
        self._print({"event": "chat.complete", "reason": reason})

    def _print(self, event: dict[str, object]) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
        sys.stdout.buffer.flush()


class PlainOutput:
    """The answer on standard output, streamed where that is a terminal; what the agent does on standard error."""

    def __init__(self) -> None:
        self._streams = sys.stdout.isatty()
        self._answering = False

    def begin(self, conversation: ConversationId) -> None:
        click.echo(f"conversation {conversation}", err=True)

    def delta(self, delta: LiveDelta) -> None:
        if delta.channel == "answer" and self._streams:
            self._answering = True
            click.echo(delta.text, nl=False)

    def block(self, entry: Entry) -> None:
        match entry.block:
            case Completion(text=text):
                self._end_answer(entry, text)
            case ToolCall() | Notice() | ModelAnswered() if self._answering and _takes_back(entry.block):
                # What was shown early turned out not to be the answer.
                self._answering = False
                click.secho(" (withdrawn)", err=True)
            case _:
                pass
        for line in _lines(entry):
            click.secho(line, err=True, dim=True)

    def end(self, reason: EndReason) -> None:
        if reason not in ("completed", "exited"):
            click.secho(f"the turn ended: {reason}", err=True)

    def _end_answer(self, entry: Entry, text: Text) -> None:
        if self._answering:
            click.echo("")
        else:
            click.echo(f"(the answer is long: {entry.path})" if isinstance(text, BlobRef) else text)
        self._answering = False


def _takes_back(block: ToolCall | Notice | ModelAnswered) -> bool:
    return not isinstance(block, ModelAnswered) or bool(block.error)


def _lines(entry: Entry) -> list[str]:
    match entry.block:
        case Notes(text=str() as text):
            return [f"  {text.splitlines()[0][:200]}"]
        case ToolCall(tool_id=tool_id, params=params):
            return [f"  → {tool_id} {params[:120] if isinstance(params, str) else ''}".rstrip()]
        case ModelAnswered(error=error, detail=detail) if error:
            return [f"  … {error}{f': {detail[:200]}' if detail else ''}"]
        case ResultDigest(digest=digest) if digest.error:
            return [f"  ✗ {digest.error.message[:200]}"]
        case ResultStatus(error=error) if error:
            return [f"  ✗ {error.message[:200]}"]
        case Notice(text=text):
            return [f"  ! {text[:200]}"]
        case PlanRecorded(snapshot=plan):
            return [f"  {marker(one)} {step}" for step, one in zip(plan.steps, plan.statuses, strict=True)]
        case TurnEnded(reason=reason, text=text) if reason != "completed" and text:
            return [f"  {text[:300]}"]
        case _:
            return []
