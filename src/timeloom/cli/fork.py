"""`timeloom fork`: a copy of a conversation up to the end of a turn, which goes on by itself."""

import sys
from pathlib import Path

import click
import msgspec

from timeloom.app import Setting
from timeloom.cli.shared import command_body, data_dir_option, existing_store
from timeloom.core.ids import ConversationId
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.runtime import fork as forking


@click.command()
@data_dir_option
@click.option("--turn", metavar="TURN", help="The last turn to copy: its id or its number; without it, the last ended.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("conversation")
@command_body
async def fork(data_dir: Path, conversation: str, turn: str | None, *, as_json: bool) -> int:
    """Copy a conversation into a new one.

    The copy has all that happened up to the end of a turn, and goes on by itself from there: `timeloom chat
    --conversation` with the id that is printed. The conversation itself stays as it is, and may be open elsewhere.
    """
    workspaces = Setting(data_dir=data_dir).workspaces
    async with existing_store(data_dir) as store:
        source = (await store.info(ConversationId(conversation))).id
        copy = await forking.fork(store, source, workspaces, SystemClock(), RandomIds(), turn=turn)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(copy) + b"\n")
    else:
        click.echo(copy.conversation)
    return 0
