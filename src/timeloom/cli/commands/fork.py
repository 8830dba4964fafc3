"""`timeloom fork`: copies a conversation up to a turn or an entry into a new one."""

import sys
from pathlib import Path

import click
import msgspec

from timeloom.app import AgentSettings
from timeloom.cli.command import async_command, data_dir_option, open_existing_store
from timeloom.core.ids import ConversationId
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.runtime.fork import fork as fork_module


@click.command()
@data_dir_option
@click.option(
    "--turn", metavar="TURN", help="The last turn to copy, by id, number or alias. Default: the last ended turn."
)
@click.option("--at", "seq", type=click.IntRange(1), metavar="SEQ", help="The last entry to copy; may cut a turn.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("conversation")
@async_command
async def fork(data_dir: Path, conversation: str, turn: str | None, seq: int | None, *, as_json: bool) -> int:
    """Copy a conversation into a new one.

    Prints the id of the new conversation; `timeloom chat --conversation ID` resumes it. The copy contains everything up
    to the end of a turn, or up to an entry. If --at cuts a turn, the turn ends there, and a running call is not
    repeated. The original stays unchanged and may be open elsewhere.

    \b
    Example: timeloom fork conv_... --turn 3
    """
    if turn is not None and seq is not None:
        raise click.UsageError("--turn and --at exclude each other; pass only one")
    workspaces = AgentSettings(data_dir=data_dir).workspaces
    async with open_existing_store(data_dir) as store:
        source = (await store.info(ConversationId(conversation))).id
        if seq is None:
            copy = await fork_module.fork(store, source, workspaces, SystemClock(), RandomIds(), turn=turn)
        else:
            copy = await fork_module.fork_at(store, source, seq, workspaces, SystemClock(), RandomIds())
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(copy) + b"\n")
    else:
        click.echo(copy.conversation)
    return 0
