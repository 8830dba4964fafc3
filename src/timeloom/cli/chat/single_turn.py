"""Runs one message of `timeloom chat -p`, with standard input as context, and prints only its answer."""

import signal
import sys
from collections.abc import Sequence
from typing import Final

import click
import msgspec

from timeloom.cli.chat.conversations import LocalConversations
from timeloom.cli.chat.display.format import format_size
from timeloom.cli.chat.plain import print_approval_commands
from timeloom.cli.chat.plain_output import PlainOutput
from timeloom.cli.chat.terminal.approvals import find_pending_approval
from timeloom.cli.sanitize import sanitize
from timeloom.cli.signals import interrupt_blocking_calls
from timeloom.core.blocks import Completion, UserPrompt
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.payload import Text
from timeloom.core.sources import SourceRow, SourcesPool
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.core.timeline import Entry
from timeloom.core.view.spend import Spend
from timeloom.providers.registry import model_notice
from timeloom.runtime.turn.attachments import IncomingFile
from timeloom.runtime.turn.loop import TurnOutcome, TurnRunner

MAX_CONTEXT_BYTES: Final = 10_000_000
"""Most bytes of standard input that `-p` accepts. All of it is held in memory and stored with the conversation."""

CONTEXT_NAME: Final = "stdin.txt"
"""The name under which the agent sees standard input as an attached file."""


def parse_prompt(typed: str) -> str:
    """Return the message of `-p`; a slash command or an empty message is a usage error."""
    if not typed.strip():
        raise click.UsageError("-p needs a message; it must not be empty")
    if typed.startswith("//"):
        return typed[1:]
    if typed.startswith("/"):
        raise click.UsageError("-p takes a message, not a command; // sends a message that begins with /")
    return typed


def read_context() -> tuple[IncomingFile, ...]:
    """Return standard input as an attached file; nothing if it is a terminal or blank."""
    if sys.stdin.isatty():
        return ()
    data = _read_bounded()
    if len(data) > MAX_CONTEXT_BYTES:
        most = format_size(MAX_CONTEXT_BYTES)
        raise CodedError("attachment_refused", f"standard input has more than {most}; pass a smaller part of it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CodedError("attachment_refused", "standard input is not UTF-8 text; convert it to UTF-8 first") from error
    if "\0" in text:
        raise CodedError("attachment_refused", "standard input is binary; -p accepts only text")
    return (IncomingFile(name=CONTEXT_NAME, mime="text/plain", text=text),) if text.strip() else ()


class SingleTurn:
    """Sends one message and prints its answer on standard output, as text or as one JSON object."""

    def __init__(self, conversations: LocalConversations, options: Sequence[str], *, as_json: bool) -> None:
        self._conversations = conversations
        self._options = options
        self._as_json = as_json

    async def run(self, conversation: ConversationId | None, prompt: str, files: Sequence[IncomingFile]) -> int:
        """Run the turn; returns 0 if it was answered, otherwise 1 after standard error says why."""
        model = self._conversations.settings.model
        output = _AnswerCollector()
        turns = await self._conversations.open(conversation, model, output)
        if model_warning := model_notice(model):
            click.echo(model_warning, err=True)
        output.on_start(turns.session.conversation)
        if turns.session.views.progress.running:
            return await self._refuse_open_turn(turns)
        await turns.open_turn(UserPrompt(text=prompt), files)
        outcome = await turns.resume()
        if outcome == "waiting":
            await self._print_question(turns)
        output.on_pause(outcome, turns.session.views.sources.pool)
        answer = None if output.answer is None else await turns.session.text(output.answer)
        self._print_result(turns, outcome, answer, output.sources)
        await turns.ensure_title()
        return 1 if answer is None or outcome == "waiting" else 0

    async def _refuse_open_turn(self, turns: TurnRunner) -> int:
        if await find_pending_approval(turns.session) is not None:
            await self._print_question(turns)
        else:
            conversation = turns.session.conversation
            hint = f"finish it first: timeloom chat --conversation {conversation}"
            click.echo(f"error: the conversation has an interrupted turn; {hint}", err=True)
        return 1

    async def _print_question(self, turns: TurnRunner) -> None:
        if question := await find_pending_approval(turns.session):
            print_approval_commands(question, turns.session.conversation, self._options)

    def _print_result(
        self, turns: TurnRunner, outcome: TurnOutcome, answer: str | None, sources: Sequence[SourceRow]
    ) -> None:
        if not self._as_json:
            if answer is not None:
                click.echo(sanitize(answer, keep_tabs=True))
            return
        views = turns.session.views
        spend = views.spend.by_turn.get(views.progress.turn_id, Spend())
        usage = {name: getattr(spend, name) for name in _USAGE_FIELDS}
        result = {
            "conversation": turns.session.conversation,
            "turn": views.progress.turn_id,
            "reason": outcome,
            "text": answer,
            "sources": [{"sid": row.sid, "title": row.title, "url": row.url} for row in sources],
            "usage": usage,
            "cost": {"usd": spend.cost_nano_usd / 1e9, "is_complete": spend.unknown_costs == 0},
        }
        click.echo(msgspec.json.encode(result).decode())


_USAGE_FIELDS: Final = (
    "model_calls",
    "tool_calls",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
)


class _AnswerCollector(PlainOutput):
    """Prints the agent's activity on standard error and keeps the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: Text | None = None
        self.sources: Sequence[SourceRow] = ()

    def on_delta(self, delta: LiveDelta) -> None:
        pass

    def on_block(self, entry: Entry) -> None:
        if isinstance(entry.block, Completion):
            self.answer = entry.block.text
        super().on_block(entry)

    def on_pause(self, reason: TurnOutcome, pool: SourcesPool) -> None:
        self.sources = pool.select(self._cited)
        super().on_pause(reason, pool)

    def _end_answer(self, entry: Entry, text: Text) -> None:
        pass


def _read_bounded() -> bytes:
    # asyncio turns Ctrl-C into a cancellation, which cannot interrupt a blocking read.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with interrupt_blocking_calls():
            return sys.stdin.buffer.read(MAX_CONTEXT_BYTES + 1)
    finally:
        signal.signal(signal.SIGINT, before)
