"""What `timeloom chat` prints: the answer as it is written and the tools as they run, or all events as JSON."""

import sys
from typing import Protocol

import click
import msgspec

from timeloom.core.blocks import (
    Completion,
    EndReason,
    Notes,
    Notice,
    PlanRecorded,
    ResultDigest,
    ResultStatus,
    ToolCall,
    TurnEnded,
)
from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef
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
    """The answer on standard output; what the agent does on standard error."""

    def __init__(self) -> None:
        self._answered = False

    def begin(self, conversation: ConversationId) -> None:
        click.echo(f"conversation {conversation}", err=True)

    def delta(self, delta: LiveDelta) -> None:
        if delta.channel == "answer":
            self._answered = True
            click.echo(delta.text, nl=False)

    def block(self, entry: Entry) -> None:
        for line in _lines(entry):
            click.secho(line, err=True, dim=True)
        if isinstance(entry.block, Completion) and not self._answered:
            text = entry.block.text
            click.echo(f"(the answer is long: {entry.path})" if isinstance(text, BlobRef) else text, nl=False)
            self._answered = True

    def end(self, reason: EndReason) -> None:
        if self._answered:
            click.echo("")
        self._answered = False
        if reason not in ("completed", "exited"):
            click.secho(f"the turn ended: {reason}", err=True)


def _lines(entry: Entry) -> list[str]:
    match entry.block:
        case Notes(text=str() as text):
            return [f"  {text.splitlines()[0][:200]}"]
        case ToolCall(tool_id=tool_id, params=str() as params):
            return [f"  → {tool_id} {params[:120]}"]
        case ResultDigest(digest=digest) if digest.error:
            return [f"  ✗ {digest.error.message[:200]}"]
        case ResultStatus(error=error) if error:
            return [f"  ✗ {error.message[:200]}"]
        case Notice(text=text):
            return [f"  ! {text[:200]}"]
        case PlanRecorded(snapshot=plan):
            return [f"  {marker(one)} {step}" for step, one in zip(plan.steps, plan.statuses, strict=True)]
        case TurnEnded(reason=reason, text=text) if reason not in ("completed", "exited") and text:
            return [f"  {text[:300]}"]
        case _:
            return []
