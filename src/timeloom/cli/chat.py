"""`timeloom chat`: a conversation in the terminal."""

import getpass
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import click

from timeloom.app import Setting, make_turns, open_session
from timeloom.cli.chat_output import JsonOutput, Output, PlainOutput
from timeloom.cli.shared import command_body, data_dir_option
from timeloom.core.blocks import ConversationStarted
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.policy.next_step import DEFAULT_MAX_ITERATIONS, Limits
from timeloom.ports.journal import ConflictError
from timeloom.providers.naming import open_model
from timeloom.runtime.turn import Turns
from timeloom.stores.sqlite import SqliteStore


@click.command()
@data_dir_option
@click.option(
    "--model",
    "model_name",
    required=True,
    envvar="TIMELOOM_MODEL",
    show_envvar=True,
    metavar="NAME",
    help="anthropic:<id>, openai:<id> or script:<file.yaml>.",
)
@click.option("--conversation", metavar="ID", help="Go on with this conversation instead of beginning one.")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON, one a line.")
@click.option(
    "--max-iterations",
    type=click.IntRange(1, 1000),
    default=DEFAULT_MAX_ITERATIONS,
    envvar=["TIMELOOM_MAX_ITERATIONS", "AI_REACT_MAX_ITERATIONS"],
    show_default=True,
    show_envvar=True,
    help="Most rounds of a turn.",
)
@click.option(
    "--multi-action",
    type=click.Choice(["off", "safe_fanout"]),
    default="off",
    envvar=["TIMELOOM_MULTI_ACTION", "AI_REACT_AGENT_MULTI_ACTION"],
    show_default=True,
    show_envvar=True,
    help="Whether one reply may hold several actions.",
)
@command_body
async def chat(
    data_dir: Path,
    model_name: str,
    conversation: str | None,
    *,
    as_json: bool,
    max_iterations: int,
    multi_action: Literal["off", "safe_fanout"],
) -> int:
    """Talk with an agent.

    Every line is a message; Ctrl-D ends. Where standard input is not a terminal, messages are read from it; the
    answers go to standard output, all else to standard error. The conversation is stored in the data folder and can be
    gone on with.
    """
    output: Output = JsonOutput() if as_json else PlainOutput()
    model = open_model(model_name)
    header = ConversationStarted(tenant="local", project="default", user=_user())
    limits = Limits(max_iterations=max_iterations, fanout=multi_action)
    try:
        async with await SqliteStore.open(data_dir) as store:
            known = None if conversation is None else ConversationId(conversation)
            session = await open_session(store, known, header)
            output.begin(session.conversation)
            session.listen(output.block)
            turns = make_turns(session, model, Setting(data_dir=data_dir, limits=limits), output.delta)
            return await _talk(turns, output)
    except ConflictError as error:
        hint = "another program has written to this conversation; open it again to go on with what it wrote"
        raise CodedError(error.code, f"{hint} ({error})") from error
    finally:
        await model.close()


async def _talk(turns: Turns, output: Output) -> int:
    unanswered = 0
    if turns.session.views.progress.running:
        click.echo("going on with the turn that was interrupted", err=True)
        output.end(await turns.go_on())
    for message in _messages():
        output.end(await turns.run(message))
        views = turns.session.views
        unanswered += not views.turns.turns[views.progress.turn_id].completions
    return 1 if unanswered else 0


def _messages() -> Iterator[str]:
    interactive = sys.stdin.isatty()
    number = 0
    while True:
        if interactive:
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
    # The event loop turns Ctrl-C into a cancellation, which cannot reach a read that blocks.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return sys.stdin.buffer.readline()
    finally:
        signal.signal(signal.SIGINT, before)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
