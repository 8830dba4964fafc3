"""`timeloom fork`: a copy of a conversation up to some entry, which goes on by itself."""

import sys
from pathlib import Path

import click
import msgspec

from timeloom.app import Setting
from timeloom.cli.command import command_body, data_dir_option, existing_store
from timeloom.core.ids import ConversationId
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.runtime.fork import fork as forking


@click.command()
@data_dir_option
@click.option("--turn", metavar="TURN", help="The last turn to copy: its id or its number; without it, the last ended.")
@click.option("--at", "seq", type=click.IntRange(1), metavar="SEQ", help="The last entry to copy, whatever it is.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("conversation")
@command_body
async def fork(data_dir: Path, conversation: str, turn: str | None, seq: int | None, *, as_json: bool) -> int:
    """Copy a conversation into a new one.

    The copy has all that happened up to the end of a turn, or up to an entry, and goes on by itself from there:
    `timeloom chat --conversation` with the id that is printed. A turn that --at cuts in two has ended there, and a call
    that was under way is not run again. The conversation itself stays as it is, and may be open elsewhere.
    """
    if turn is not None and seq is not None:
        raise click.UsageError("--turn and --at both say where to fork; give one of them")
    workspaces = Setting(data_dir=data_dir).workspaces
    async with existing_store(data_dir) as store:
        source = (await store.info(ConversationId(conversation))).id
        if seq is None:
            copy = await forking.fork(store, source, workspaces, SystemClock(), RandomIds(), turn=turn)
        else:
            copy = await forking.fork_at(store, source, seq, workspaces, SystemClock(), RandomIds())
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(copy) + b"\n")
    else:
        click.echo(copy.conversation)
    return 0
