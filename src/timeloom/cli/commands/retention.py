"""`timeloom retention`: deletes conversations that are older than the retention period."""

from collections import Counter

import click
import msgspec

from timeloom.cli.command import async_command, open_existing_store, print_error
from timeloom.cli.options import with_settings
from timeloom.cli.sanitize import sanitize
from timeloom.config.resolve import LoadedSettings
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.data_folder import build_side_file_erasers
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.store import Store
from timeloom.runtime.erase.kept import keep_conversation, release_conversation
from timeloom.runtime.erase.retention import RetentionOutcome, RetentionResult
from timeloom.server.auth.retention import RetentionJob

_WORDS: dict[RetentionOutcome, str] = {
    "deleted": "Deleted",
    "due": "Would delete",
    "open": "Skipped, has an open turn:",
    "held": "Skipped, is open in a program:",
    "kept": "Skipped, is marked with --keep:",
}


@click.command()
@with_settings("data_dir")
@click.option("--days", type=click.IntRange(1, 36_500), help="Period in days; default: the setting retention.days.")
@click.option("--dry-run", is_flag=True, help="Print the conversations that would be deleted, and delete nothing.")
@click.option("--keep", "kept", metavar="ID", multiple=True, help="Mark this conversation to be kept; delete nothing.")
@click.option("--release", "released", metavar="ID", multiple=True, help="Remove that mark; delete nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per conversation and line.")
@async_command
async def retention(
    loaded: LoadedSettings,
    *,
    days: int | None,
    dry_run: bool,
    kept: tuple[str, ...],
    released: tuple[str, ...],
    as_json: bool,
) -> int:
    """Delete conversations whose last entry is older than the retention period.

    The period is --days or the setting retention.days, with which servers and workers do the same at their start and
    daily. A conversation is deleted as by `timeloom delete`. Conversations with an open turn, that a program has open,
    or that are marked with --keep stay and are listed.

    \b
    Examples:
      timeloom retention --days 90 --dry-run
      timeloom retention --keep conv_...
    """
    settings = loaded.settings
    wanted = days or settings.retention.days
    if wanted == "none" and not kept and not released:
        raise click.UsageError("there is no retention period; pass --days or set retention.days")
    async with open_existing_store(settings.data_dir) as store:
        if kept or released:
            return await _change_marks(store, kept, released)
        assert wanted != "none"
        erasers = build_side_file_erasers(settings.data_dir)
        job = RetentionJob(store, wanted, settings.data_dir, SystemClock(), RandomIds(), erasers)
        counts = Counter[RetentionOutcome]()
        async for result in job.run(dry_run=dry_run):
            counts[result.outcome] += 1
            click.echo(msgspec.json.encode(result).decode() if as_json else _format_result(result))
    if not as_json and not counts:
        click.echo(f"no conversation is older than {wanted} days", err=True)
    return 0


async def _change_marks(store: Store, kept: tuple[str, ...], released: tuple[str, ...]) -> int:
    failed = 0
    for name, keep in [*((name, True) for name in kept), *((name, False) for name in released)]:
        try:
            if keep:
                await keep_conversation(store, ConversationId(name), SystemClock())
                click.echo(f"Kept {name}")
            elif await release_conversation(store, ConversationId(name)):
                click.echo(f"Released {name}")
            else:
                click.echo(f"{name} had no mark", err=True)
        except CodedError as error:
            print_error(error, name)
            failed += 1
    return 1 if failed else 0


def _format_result(result: RetentionResult) -> str:
    return sanitize(f"{_WORDS[result.outcome]} {result.conversation}, last entry {result.last_ts}")
