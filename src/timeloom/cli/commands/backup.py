"""`timeloom backup`: writes a consistent copy of a data folder."""

from pathlib import Path

import click
import msgspec

from timeloom.cli.command import async_command, data_dir_option, require_journal
from timeloom.cli.commands.verify import print_verified
from timeloom.ports.store import VerifyReport
from timeloom.server.auth.audit_log import copy_audit_logs
from timeloom.stores.sqlite import SqliteStore
from timeloom.stores.sqlite.backup import copy_folder, copy_store


@click.command()
@data_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print the result of the verification as one JSON object.")
@click.argument("dest", type=click.Path(path_type=Path, file_okay=False))
@async_command
async def backup(data_dir: Path, dest: Path, *, as_json: bool) -> int:
    """Copy a data folder to a new folder, also while programs use it.

    The copy has the conversations, payloads, heads, budgets, workspaces and audit logs, and is verified at the end.
    It has no API keys, signing keys or settings files. DEST must not exist or be empty.

    \b
    Example: timeloom backup /backups/monday
    """
    require_journal(data_dir)
    return print_copied(await copy_data_folder(data_dir, dest), as_json=as_json)


async def copy_data_folder(source: Path, target: Path, *, read_only: bool = False) -> VerifyReport:
    """Copy the data folder and return the result of the copy's verification."""
    await copy_store(source, target, read_only=read_only)
    copy_folder(source / "workspaces", target / "workspaces")
    copy_audit_logs(source / "audit", target / "audit")
    async with await SqliteStore.open_read_only(target) as store:
        return await store.verify()


def print_copied(report: VerifyReport, *, as_json: bool) -> int:
    """Print the verification of the copy and return the exit code."""
    if as_json:
        click.echo(msgspec.json.encode(report).decode())
    else:
        print_verified(report)
    return 1 if report.findings else 0
