"""`timeloom delete`: removes conversations with their files."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from timeloom.app import AgentSettings
from timeloom.cli.command import async_command, data_dir_option, open_existing_store, print_error
from timeloom.cli.sanitize import sanitize
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.data_folder import build_side_file_erasers
from timeloom.runtime.erase.delete_unheld import delete_unheld

HOLDER = "timeloom delete"


class DeletedConversation(msgspec.Struct, frozen=True):
    """A deleted conversation in the output of `timeloom delete --json`."""

    deleted: ConversationId


@click.command()
@data_dir_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per deleted conversation; needs --yes.")
@click.argument("conversations", nargs=-1, required=True, metavar="ID...")
@async_command
async def delete(data_dir: Path, conversations: tuple[str, ...], *, yes: bool, as_json: bool) -> int:
    """Delete conversations permanently, with their payloads, files and search terms.

    No record of them remains. Forks stay. A conversation that a running program has open is refused; close it there
    first. The other conversations are deleted, and the exit code is 1. If one of the ids is unknown, nothing is
    deleted.

    \b
    Example: timeloom delete conv_... conv_... --yes
    """
    names = [ConversationId(name) for name in dict.fromkeys(conversations)]
    failed = 0
    async with open_existing_store(data_dir) as store:
        titles = [f"{name}  {(await store.info(name)).title}".rstrip() for name in names]
        if not yes and not _confirm(titles, as_json=as_json):
            click.echo("nothing was deleted; pass --yes to delete without a question", err=True)
            return 1
        workspaces, erasers = AgentSettings(data_dir=data_dir).workspaces, build_side_file_erasers(data_dir)
        for name in names:
            try:
                await delete_unheld(store, name, workspaces, HOLDER, erasers)
            except CodedError as error:
                print_error(error, name)
                failed += 1
                continue
            click.echo(msgspec.json.encode(DeletedConversation(name)).decode() if as_json else f"Deleted {name}")
    return 1 if failed else 0


def _confirm(titles: Sequence[str], *, as_json: bool) -> bool:
    if as_json or not sys.stdin.isatty():
        return False
    for title in titles:
        click.echo(sanitize(title))
    return click.confirm("Delete permanently?")
