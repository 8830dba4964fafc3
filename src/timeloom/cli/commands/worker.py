"""`timeloom worker`: resumes the open turns of a data folder."""

import shlex
from collections.abc import Sequence
from typing import assert_never

import click
import msgspec

from timeloom.agent.turn_builder import TurnRunnerBuilder
from timeloom.app import AgentSettings, ModelPool, open_tools
from timeloom.cli.chat.conversations import with_default_model
from timeloom.cli.command import async_command, has_conversations, open_existing_store
from timeloom.cli.options import (
    OPTION_KEYS,
    command_line_options,
    load_option_bundles,
    load_option_tools,
    with_settings,
    with_tools,
)
from timeloom.cli.sanitize import sanitize
from timeloom.config.resolve import LoadedSettings
from timeloom.config.settings import Settings
from timeloom.config.signing import open_signer
from timeloom.core.ids import ConversationId
from timeloom.data_folder import build_side_file_erasers
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.store import Store
from timeloom.runtime.session.resume import resume_session
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.runtime.turn.resume_open_turns import (
    OpenTurnEnded,
    OpenTurnFailed,
    OpenTurnHeld,
    OpenTurnRunner,
    OpenTurnWaiting,
    ResumeResult,
    resume_open_turns,
)
from timeloom.server.auth.retention import RetentionJob

HOLDER = "timeloom worker"


@click.command()
@with_settings(*OPTION_KEYS)
@with_tools
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per conversation and line.")
@async_command
async def worker(loaded: LoadedSettings, *, as_json: bool) -> int:
    """Resume every open turn, then exit.

    Turns stay open when a program is killed or the machine loses power. Each resumes at the end of its timeline, so
    finished steps are not repeated. A call with an unknown outcome is left to its tool or to a person. A turn that
    waits for approval stays unchanged, and so does one that another program has open. Run it after a restart or from a
    timer: without open turns it does nothing.

    Prints one line per conversation, and exits with 1 if a turn could not be resumed.
    """
    settings, options = with_default_model(loaded.settings), command_line_options()
    own_tools, bundles = load_option_tools(), load_option_bundles(loaded)
    if not has_conversations(settings.data_dir):
        folder = click.format_filename(settings.data_dir)
        click.echo(f"no turn is open: there are no conversations in {folder}", err=as_json)
        return 0

    def print_outcome(outcome: ResumeResult) -> None:
        click.echo(
            msgspec.json.encode(outcome).decode()
            if as_json
            else f"{outcome.conversation}: {_describe_outcome(outcome, options)}"
        )

    async with (
        ModelPool(settings) as models,
        open_tools(settings) as tools,
        open_existing_store(settings.data_dir, open_signer(settings)) as store,
    ):
        await _apply_retention(store, settings)
        agent_settings = AgentSettings.from_settings(settings)
        builder = TurnRunnerBuilder(store, agent_settings, tools.with_tools(own_tools), bundles)
        opener = _make_opener(store, models, builder, settings)
        outcomes = await resume_open_turns(store, opener, on_result=print_outcome)
    if not outcomes and not as_json:
        click.echo("no turn is open")
    return 1 if any(isinstance(outcome, OpenTurnFailed) for outcome in outcomes) else 0


async def _apply_retention(store: Store, settings: Settings) -> None:
    days = settings.retention.days
    if days == "none":
        return
    erasers = build_side_file_erasers(settings.data_dir)
    job = RetentionJob(store, days, settings.data_dir, SystemClock(), RandomIds(), erasers)
    async for result in job.run():
        if result.outcome == "deleted":
            click.echo(sanitize(f"deleted {result.conversation} after {days} days"), err=True)


def _make_opener(store: Store, models: ModelPool, builder: TurnRunnerBuilder, settings: Settings) -> OpenTurnRunner:
    # Before anything is opened: an unknown model name is one usage error, not a failure of every conversation.
    model, side = models.get(settings.model), models.get_side_models(settings.model)

    async def open_turns(conversation: ConversationId) -> TurnRunner:
        session = await resume_session(store, conversation, SystemClock(), RandomIds(), holder=HOLDER)
        try:
            return builder.build(session, model, lambda _: None, side)
        except BaseException:
            await session.close()
            raise

    return open_turns


def _describe_outcome(outcome: ResumeResult, options: Sequence[str]) -> str:
    match outcome:
        case OpenTurnEnded(reason=reason):
            return f"ended, {reason}"
        case OpenTurnWaiting():
            command = sanitize(shlex.join(["timeloom", "approve", outcome.conversation, *options]))
            return f"waits for approval; `{command}` shows the call"
        case OpenTurnHeld(by=by, since=since):
            return f"is held by {by} since {since}"
        case OpenTurnFailed(message=message, code=code):
            return f"failed: {message}{f' [{code}]' if code else ''}"
        case _:
            assert_never(outcome)
