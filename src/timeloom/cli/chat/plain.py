"""Runs a conversation without a screen: each line of standard input is one message."""

import shlex
import signal
import sys
from collections.abc import Iterator, Sequence

import click

from timeloom.cli.chat.conversations import Rooms
from timeloom.cli.chat.plain_output import Output
from timeloom.cli.chat.terminal.approvals import HOW, PROMPT, Decision, Question, open_question, read_decision
from timeloom.cli.sanitize import harmless
from timeloom.cli.signals import reaching_what_blocks
from timeloom.core.ids import ConversationId
from timeloom.providers.registry import notice
from timeloom.runtime.turn.loop import Pause, Turns


class Lines:
    """Reads messages from standard input and prints the answers.

    Where a call needs approval and `asks` is set, the person at the terminal is asked. Otherwise the `timeloom approve`
    command is printed, and no further input is read.
    """

    def __init__(self, rooms: Rooms, output: Output, options: Sequence[str] = (), *, asks: bool = False) -> None:
        self._rooms = rooms
        self._output = output
        self._options = options
        self._asks = asks

    async def answer(self, conversation: ConversationId | None) -> int:
        """Run the conversation until the input ends; returns 1 if a message was not answered, otherwise 0."""
        model = self._rooms.settings.model
        turns = await self._rooms.open(conversation, model, self._output)
        if said := notice(model):
            click.echo(said, err=True)
        self._output.begin(turns.session.conversation)
        if turns.session.views.progress.running and not await self.go_on(turns):
            return 1
        await turns.settle()
        unanswered = 0
        for message in _messages(prompts=self._asks):
            if not await self.run(turns, await turns.run(message)):
                unanswered += 1
                if turns.session.views.progress.running:
                    break
        return 1 if unanswered else 0

    async def go_on(self, turns: Turns) -> bool:
        """Resume the open turn; returns whether it was answered."""
        if await open_question(turns.session) is None:
            click.echo("resuming the interrupted turn", err=True)
        return await self.run(turns, await turns.go_on())

    async def run(self, turns: Turns, pause: Pause) -> bool:
        """Continue the turn until it ends or no decision comes, and return whether it was answered."""
        while pause == "waiting" and await self._decided(turns):
            pause = await turns.go_on()
        self._output.end(pause)
        # Reading the next message blocks the event loop, so the title is made first.
        await turns.settle()
        views = turns.session.views
        return pause != "waiting" and bool(views.turns.turns[views.progress.turn_id].completions)

    async def _decided(self, turns: Turns) -> bool:
        question = await open_question(turns.session)
        if question is None:
            return False
        if not self._asks:
            self._output.ask(question)
            tell(question, turns.session.conversation, self._options)
            return False
        decision = _ask(question)
        if decision is None:
            tell(question, turns.session.conversation, self._options)
            return False
        await turns.inbox.decide(question.call_id, decision.approved, self._rooms.user, decision.text)
        return True


def tell(question: Question, conversation: ConversationId, options: Sequence[str]) -> None:
    """Print on standard error the call that needs approval, and the commands that approve or refuse it."""
    for line in _described(question):
        click.echo(line, err=True)
    decide = [sys.argv[0], "approve", conversation, question.call_id, *options]
    click.echo("The turn waits for your decision, now or later:", err=True)
    click.echo(f"  to allow it:  {harmless(shlex.join(decide))}", err=True)
    click.echo(f"  to refuse it: {harmless(shlex.join([*decide, '--refuse', '--reason']))} TEXT", err=True)


def _described(question: Question) -> list[str]:
    return [harmless(line) for line in (question.headline, question.reason, *(f"  {one}" for one in question.lines()))]


def _ask(question: Question) -> Decision | None:
    """Ask the person at the terminal; returns None at the end of input."""
    for line in _described(question):
        click.echo(line, err=True)
    click.echo(HOW, err=True)
    while True:
        click.echo(PROMPT, nl=False, err=True)
        line = _read_line()
        if not line:
            return None
        if decision := read_decision(line.decode("utf-8", "replace")):
            return decision


def _messages(*, prompts: bool) -> Iterator[str]:
    number = 0
    while True:
        if prompts:
            click.echo("> ", nl=False, err=True)
        line = _read_line()
        number += 1
        if not line:
            return
        try:
            message = line.decode().strip()
        except UnicodeDecodeError as error:
            raise click.ClickException(f"line {number} of standard input is not UTF-8") from error
        if message:
            yield message


def _read_line() -> bytes:
    # asyncio turns Ctrl-C into a cancellation, which cannot interrupt a blocking read.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with reaching_what_blocks():
            return sys.stdin.buffer.readline()
    finally:
        signal.signal(signal.SIGINT, before)
