"""`timeloom erase`: what a conversation holds is removed for good, with all that was made from it."""

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
@click.option("--all", "whole", is_flag=True, help="All that the conversation holds; its order and paths stay.")
@click.option("--quotes", is_flag=True, help="With paths: also blocks that say the same in their own right.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("conversation")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@command_body
async def erase(
    data_dir: Path, conversation: str, paths: tuple[str, ...], *, whole: bool, quotes: bool, yes: bool, as_json: bool
) -> int:
    """Remove for good what a conversation holds at some paths, or all of it.

    Order, times, types and paths stay, and the log still verifies; what was said is gone, with everything that was made
    from it: requests, replies, results that showed it again, summaries, titles and files. It cannot be undone. An erase
    that was cut off is finished by asking for it again.
    """
    if whole == bool(paths):
        raise click.UsageError("name the paths to erase, or say --all")
    asked = Asked(conversation=ConversationId(conversation), paths=paths, quotes=quotes)
    workspaces = Setting(data_dir=data_dir).workspaces
    async with existing_store(data_dir) as store:
        plan = await plan_erasure(store, asked, workspaces)
        if not as_json:
            _tell(plan.report)
        if not yes and not _agreed(as_json=as_json):
            click.echo("nothing was erased; say --yes to erase it", err=True)
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
    return not as_json and sys.stdin.isatty() and click.confirm("Erase this for good?")


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
        click.echo(f"erased before: {report.before}")
    for name in report.files:
        click.echo(harmless(f"file: {name}"))
    for place in report.quotes:
        click.echo(f"stays, and says the same: {_line(place)}")
    for copy in report.copies:
        click.echo(f"stays, and has a copy: conversation {copy}")


_KINDS: Final = {
    "quotes it": "copies of the same words",
    "shows it again": "results that show it again",
    "sums it up": "summaries of it, and requests for them",
    "stands in its place": "texts in its place",
    "title made from it": "titles made from it",
    "request that showed it": "requests that showed it",
    "reply it came from": "replies that it came from",
    "call it came from": "parts of the call that it came from",
    "result it came with": "results that it came with",
}


def _line(place: Place) -> str:
    return harmless(f"{place.seq:>6}  {place.type:<22} {place.path}".rstrip())
