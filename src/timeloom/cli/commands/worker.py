"""`timeloom worker`: resumes the open turns of a data folder."""

import shlex
from collections.abc import Sequence
from typing import assert_never

import click
import msgspec

from timeloom.app import Setting, make_turns, open_tools
from timeloom.cli.chat.conversations import OpenModels, with_model
from timeloom.cli.command import command_body, existing_store, has_conversations
from timeloom.cli.options import OPTION_KEYS, typed_options, with_settings
from timeloom.cli.sanitize import harmless
from timeloom.config.resolve import Loaded
from timeloom.config.settings import Settings
from timeloom.core.ids import ConversationId
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.store import Store
from timeloom.runtime.session.resume import resume
from timeloom.runtime.turn.loop import Turns
from timeloom.runtime.turn.resume_open_turns import Ended, Failed, Held, Open, Recovered, Waiting, recover
from timeloom.tools.registry import ToolRegistry

HOLDER = "timeloom worker"


@click.command()
@with_settings(*OPTION_KEYS)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per conversation and line.")
@command_body
async def worker(loaded: Loaded, *, as_json: bool) -> int:
    """Resume every open turn, then exit.

    Turns stay open when a program is killed or the machine loses power. Each resumes at the end of its timeline, so
    finished steps are not repeated. A call with an unknown outcome is left to its tool or to a person. A turn that
    waits for approval stays unchanged, and so does one that another program has open. Run it after a restart or from a
    timer: without open turns it does nothing.

    Prints one line per conversation, and exits with 1 if a turn could not be resumed.
    """
    settings, typed = with_model(loaded.settings), typed_options()
    if not has_conversations(settings.data_dir):
        folder = click.format_filename(settings.data_dir)
        click.echo(f"no turn is open: there are no conversations in {folder}", err=as_json)
        return 0

    def tell(outcome: Recovered) -> None:
        click.echo(
            msgspec.json.encode(outcome).decode() if as_json else f"{outcome.conversation}: {_said(outcome, typed)}"
        )

    async with (
        OpenModels(settings) as models,
        open_tools(settings) as tools,
        existing_store(settings.data_dir) as store,
    ):
        outcomes = await recover(store, _opening(store, models, tools, settings), tell=tell)
    if not outcomes and not as_json:
        click.echo("no turn is open")
    return 1 if any(isinstance(outcome, Failed) for outcome in outcomes) else 0


def _opening(store: Store, models: OpenModels, tools: ToolRegistry, settings: Settings) -> Open:
    # Before anything is opened: an unknown model name is one usage error, not a failure of every conversation.
    model, side = models.get(settings.model), models.beside(settings.model)

    async def opened(conversation: ConversationId) -> Turns:
        session = await resume(store, conversation, SystemClock(), RandomIds(), holder=HOLDER)
        try:
            return make_turns(session, model, Setting.of(settings), lambda _: None, tools, side)
        except BaseException:
            await session.close()
            raise

    return opened


def _said(outcome: Recovered, typed: Sequence[str]) -> str:
    match outcome:
        case Ended(reason=reason):
            return f"ended, {reason}"
        case Waiting():
            command = harmless(shlex.join(["timeloom", "approve", outcome.conversation, *typed]))
            return f"waits for approval; `{command}` shows the call"
        case Held(by=by, since=since):
            return f"is held by {by} since {since}"
        case Failed(message=message, code=code):
            return f"failed: {message}{f' [{code}]' if code else ''}"
        case _:
            assert_never(outcome)
