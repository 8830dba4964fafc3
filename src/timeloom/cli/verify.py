"""`timeloom verify`: is everything in the data folder there and whole?"""

from pathlib import Path

import click
import msgspec

from timeloom.cli.shared import command_body, data_dir_option, existing_store
from timeloom.ports.store import Finding, Verified


@click.command()
@data_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@command_body
async def verify(data_dir: Path, *, as_json: bool) -> int:
    """Check every stored conversation and payload.

    Reads the whole folder and changes nothing. Exits with 1 if anything is damaged, and names the conversation;
    the others stay readable.
    """
    async with existing_store(data_dir) as store:
        found = await store.verify()
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        print_verified(found)
    return 1 if found.findings else 0


def print_verified(found: Verified) -> None:
    """Prints each finding with its place, then what was looked at and the verdict."""
    for finding in found.findings:
        place = "" if finding.conversation and finding.conversation in finding.message else f"{_place(finding)}: "
        click.echo(f"{place}{finding.message} [{finding.code}]")
    counts = f"conversations: {found.conversations}, entries: {found.entries}, payloads: {found.blobs}"
    click.echo(f"Checked {counts}; {_verdict(len(found.findings))}.")


def _place(finding: Finding) -> str:
    if finding.conversation is None:
        return "store"
    return finding.conversation if finding.seq is None else f"{finding.conversation} entry {finding.seq}"


def _verdict(count: int) -> str:
    return f"findings: {count}" if count else "all whole"
