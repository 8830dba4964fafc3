"""Runs a conversation without a screen: each line of standard input is a message or a command."""

import shlex
import signal
import sys
from collections.abc import Iterator, Sequence

import click

from timeloom.cli.chat.conversations import LocalConversations
from timeloom.cli.chat.plain_output import ChatOutput
from timeloom.cli.chat.terminal.approvals import (
    DECISION_HELP,
    DECISION_PROMPT,
    ApprovalDecision,
    ApprovalQuestion,
    find_pending_approval,
    parse_decision,
)
from timeloom.cli.chat.terminal.form_prompt import example_answer, form_lines
from timeloom.cli.sanitize import one_line, sanitize
from timeloom.cli.signals import interrupt_blocking_calls
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.providers.registry import model_notice
from timeloom.runtime.turn.form_answers import make_form_event, read_form
from timeloom.runtime.turn.loop import TurnOutcome, TurnRunner


class PlainChat:
    """Reads messages from standard input and prints the answers.

    Where a call needs approval and `asks` is set, the person at the terminal is asked. Otherwise the `timeloom approve`
    command is printed, and no further input is read.
    """

    def __init__(
        self, conversations: LocalConversations, output: ChatOutput, options: Sequence[str] = (), *, asks: bool = False
    ) -> None:
        self._conversations = conversations
        self._output = output
        self._options = options
        self._asks = asks
        self._has_unknown_command = False

    async def run(self, conversation: ConversationId | None) -> int:
        """Run the conversation until the input ends; returns 0 if every line was handled.

        It returns 2 if a line was a slash command that does not exist here, and 1 if a message was not answered.
        """
        model = self._conversations.settings.model
        turns = await self._conversations.open(conversation, model, self._output)
        if model_warning := model_notice(model):
            click.echo(model_warning, err=True)
        self._output.on_start(turns.session.conversation)
        if turns.session.views.progress.running:
            if not await self.resume_turn(turns):
                return 1
        elif turns.session.views.compactions.pending:
            await turns.resume()
        await turns.ensure_title()
        unanswered = 0
        for line in _read_messages(prompts=self._asks):
            if not await self._answer_line(turns, line):
                unanswered += 1
                if turns.session.views.progress.running:
                    break
        return 2 if self._has_unknown_command else 1 if unanswered else 0

    async def resume_turn(self, turns: TurnRunner) -> bool:
        """Resume the open turn; returns whether it was answered."""
        if await find_pending_approval(turns.session) is None:
            click.echo("resuming the interrupted turn", err=True)
        return await self.finish_turn(turns, await turns.resume())

    async def finish_turn(self, turns: TurnRunner, pause: TurnOutcome) -> bool:
        """Continue the turn until it ends or no decision comes, and return whether it was answered."""
        while pause == "waiting" and await self._ask_decision(turns):
            pause = await turns.resume()
        self._output.on_pause(pause, turns.session.views.sources.pool)
        await self._print_form(turns)
        # Reading the next message blocks the event loop, so the title is made first.
        await turns.ensure_title()
        views = turns.session.views
        return pause != "waiting" and bool(views.turns.turns[views.progress.turn_id].completions)

    async def _answer_line(self, turns: TurnRunner, line: str) -> bool:
        """Run the line as a command or a message; returns whether it was answered."""
        if line.startswith("/") and not line.startswith("//"):
            return await self._run_command(turns, line)
        message = line[1:] if line.startswith("//") else line
        return await self.finish_turn(turns, await turns.run(message))

    async def _run_command(self, turns: TurnRunner, line: str) -> bool:
        """Run a slash command; returns whether it was possible."""
        word, _, rest = line[1:].strip().partition(" ")
        if word.lower() == "form":
            return await self._answer_form(turns, rest)
        if word.lower() != "compact":
            self._has_unknown_command = True
            hint = (
                "only /compact is a command here, and /form while a form waits; // sends a message that begins with /"
            )
            click.echo(sanitize(f"/{one_line(word, 40)} needs a terminal, or is unknown: {hint}"), err=True)
            return False
        try:
            await turns.compact(rest.strip())
        except CodedError as error:
            click.echo(sanitize(str(error)), err=True)
            return False
        return True

    async def _answer_form(self, turns: TurnRunner, answer: str) -> bool:
        """Answer the newest open form with a JSON object, and run the turn that it begins."""
        waiting = turns.session.views.forms.open_forms()
        try:
            if not waiting:
                raise CodedError("form_unknown", "no form waits for an answer")
            event = await make_form_event(turns.session, waiting[-1], answer, self._conversations.user)
        except CodedError as error:
            click.echo(sanitize(str(error)), err=True)
            return False
        await turns.open_turn(event)
        return await self.finish_turn(turns, await turns.resume())

    async def _print_form(self, turns: TurnRunner) -> None:
        """Print the newest form that waits for an answer, and how to answer it."""
        if waiting := turns.session.views.forms.open_forms():
            form = await read_form(turns.session, waiting[-1])
            for line in form_lines(form):
                click.echo(sanitize(line), err=True)
            click.echo(sanitize(f"answer it with a line such as /form {example_answer(form)}"), err=True)

    async def _ask_decision(self, turns: TurnRunner) -> bool:
        question = await find_pending_approval(turns.session)
        if question is None:
            return False
        if not self._asks:
            self._output.on_question(question)
            print_approval_commands(question, turns.session.conversation, self._options)
            return False
        decision = _ask_on_terminal(question)
        if decision is None:
            print_approval_commands(question, turns.session.conversation, self._options)
            return False
        await turns.inbox.decide(question.call_id, decision.approved, self._conversations.user, decision.text)
        return True


def print_approval_commands(question: ApprovalQuestion, conversation: ConversationId, options: Sequence[str]) -> None:
    """Print on standard error the call that needs approval, and the commands that approve or refuse it."""
    for line in _question_lines(question):
        click.echo(line, err=True)
    decide = [sys.argv[0], "approve", conversation, question.call_id, *options]
    click.echo("The turn waits for your decision, now or later:", err=True)
    click.echo(f"  to allow it:  {sanitize(shlex.join(decide))}", err=True)
    click.echo(f"  to refuse it: {sanitize(shlex.join([*decide, '--refuse', '--reason']))} TEXT", err=True)


def _question_lines(question: ApprovalQuestion) -> list[str]:
    return [
        sanitize(line)
        for line in (question.headline, question.reason, *(f"  {one}" for one in question.detail_lines()))
    ]


def _ask_on_terminal(question: ApprovalQuestion) -> ApprovalDecision | None:
    """Ask the person at the terminal; returns None at the end of input."""
    for line in _question_lines(question):
        click.echo(line, err=True)
    click.echo(DECISION_HELP, err=True)
    while True:
        click.echo(DECISION_PROMPT, nl=False, err=True)
        line = _read_line()
        if not line:
            return None
        if decision := parse_decision(line.decode("utf-8", "replace")):
            return decision


def _read_messages(*, prompts: bool) -> Iterator[str]:
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
        with interrupt_blocking_calls():
            return sys.stdin.buffer.readline()
    finally:
        signal.signal(signal.SIGINT, before)
