"""`timeloom erase`: removes content of a conversation permanently, with everything derived from it."""

import getpass
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import click
import msgspec

from timeloom.app import Setting
from timeloom.cli.command import command_body, data_dir_option, existing_store
from timeloom.cli.sanitize import harmless
from timeloom.core.ids import ConversationId
from timeloom.ports.clock import SystemClock
from timeloom.runtime.erase.erase import Asked, ErasurePlan, ErasureReport, Place, plan_erasure
from timeloom.runtime.erase.erase import erase as erase_now
from timeloom.runtime.erase.side_files import forget_elsewhere


@click.command()
@data_dir_option
@click.option("--all", "whole", is_flag=True, help="Erase all content of the conversation; its order and paths stay.")
@click.option("--quotes", is_flag=True, help="With paths: also erase other blocks with the same text.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("conversation")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@command_body
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
    asked = Asked(conversation=ConversationId(conversation), paths=paths, quotes=quotes)
    workspaces = Setting(data_dir=data_dir).workspaces
    async with existing_store(data_dir) as store:
        plan = await plan_erasure(store, asked, workspaces)
        if not as_json:
            _tell(plan.report)
        if not yes and not _agreed(as_json=as_json):
            click.echo("nothing was erased; pass --yes to erase without a question", err=True)
            return 1

        def elsewhere(plan: ErasurePlan) -> None:
            forget_elsewhere(data_dir, asked.conversation, plan.typed)

        report = await erase_now(store, asked, workspaces, getpass.getuser(), SystemClock(), elsewhere)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    else:
        click.echo("Erased.")
    return 0


def _agreed(*, as_json: bool) -> bool:
    return not as_json and sys.stdin.isatty() and click.confirm("Erase this permanently?")


def _tell(report: ErasureReport) -> None:
    named = [place for place in report.entries if place.why == "named"]
    for place in named:
        click.echo(_line(place))
    for why, count in Counter(place.why for place in report.entries if place.why != "named").items():
        click.echo(f"also {_KINDS[why]}: {count}")
    for place in report.entries:
        if place.why == "sums it up":
            click.echo(_line(place))
    if report.before:
        click.echo(f"already erased: {report.before}")
    for name in report.files:
        click.echo(harmless(f"file: {name}"))
    for place in report.quotes:
        click.echo(f"stays, with the same text: {_line(place)}")
    for copy in report.copies:
        click.echo(f"stays, with a copy: conversation {copy}")


_KINDS: Final = {
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


def _line(place: Place) -> str:
    return harmless(f"{place.seq:>6}  {place.type:<22} {place.path}".rstrip())
