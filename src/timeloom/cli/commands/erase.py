"""`timeloom erase`: removes content of a conversation permanently, with everything derived from it."""

import getpass
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import click
import msgspec

from timeloom.app import AgentSettings
from timeloom.cli.command import async_command, data_dir_option, open_existing_store
from timeloom.cli.sanitize import sanitize
from timeloom.core.ids import ConversationId
from timeloom.data_folder import build_side_file_erasers
from timeloom.ports.clock import SystemClock
from timeloom.runtime.erase.erase import ErasedEntry, EraseRequest, ErasureReport, plan_erasure
from timeloom.runtime.erase.erase import erase as erase_now


@click.command()
@data_dir_option
@click.option("--all", "whole", is_flag=True, help="Erase all content of the conversation; its order and paths stay.")
@click.option("--quotes", is_flag=True, help="With paths: also erase other blocks with the same text.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("conversation")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@async_command
async def erase(
    data_dir: Path, conversation: str, paths: tuple[str, ...], *, whole: bool, quotes: bool, yes: bool, as_json: bool
) -> int:
    """Erase the content of some paths of a conversation, or all of it, permanently.

    Everything derived from the content is erased too: requests, replies, results that repeat it, summaries, titles and
    files. Order, times, types and paths of the blocks stay, and the log still verifies. This cannot be undone. The
    command first lists the affected blocks and asks for confirmation. If it is interrupted, run it again to finish.

    \b
    Examples:
      timeloom erase conv_... ar:TURN.user.prompt
      timeloom erase conv_... --all
    """
    if whole == bool(paths):
        raise click.UsageError("pass either the paths to erase or --all")
    request = EraseRequest(conversation=ConversationId(conversation), paths=paths, quotes=quotes)
    workspaces = AgentSettings(data_dir=data_dir).workspaces
    async with open_existing_store(data_dir) as store:
        plan = await plan_erasure(store, request, workspaces)
        if not as_json:
            _print_report(plan.report)
        if not yes and not _confirm(as_json=as_json):
            click.echo("nothing was erased; pass --yes to erase without a question", err=True)
            return 1
        erasers = build_side_file_erasers(data_dir)
        report = await erase_now(store, request, workspaces, getpass.getuser(), SystemClock(), erasers)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    else:
        click.echo("Erased.")
    return 0


def _confirm(*, as_json: bool) -> bool:
    return not as_json and sys.stdin.isatty() and click.confirm("Erase this permanently?")


def _print_report(report: ErasureReport) -> None:
    named = [place for place in report.entries if place.why == "named"]
    for place in named:
        click.echo(_entry_line(place))
    for why, count in Counter(place.why for place in report.entries if place.why != "named").items():
        click.echo(f"also {_REASON_LABELS[why]}: {count}")
    for place in report.entries:
        if place.why == "sums it up":
            click.echo(_entry_line(place))
    if report.before:
        click.echo(f"already erased: {report.before}")
    for name in report.files:
        click.echo(sanitize(f"file: {name}"))
    for place in report.quotes:
        click.echo(f"stays, with the same text: {_entry_line(place)}")
    for copy in report.copies:
        click.echo(f"stays, with a copy: conversation {copy}")


_REASON_LABELS: Final = {
    "quotes it": "blocks with the same text",
    "shows it again": "results that repeat it",
    "sums it up": "summaries of it, and the requests for them",
    "stands in its place": "replacement texts",
    "title made from it": "titles made from it",
    "request that showed it": "requests that contain it",
    "reply it came from": "replies that produced it",
    "call it came from": "parts of the call that produced it",
    "result it came with": "results that arrived with it",
}


def _entry_line(place: ErasedEntry) -> str:
    return sanitize(f"{place.seq:>6}  {place.type:<22} {place.path}".rstrip())
