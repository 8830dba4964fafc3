"""`timeloom restore`: makes a data folder from a backup."""

from pathlib import Path

import click

from timeloom.cli.command import async_command, data_dir_option, require_journal
from timeloom.cli.commands.backup import copy_data_folder, print_copied


@click.command()
@data_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print the result of the verification as one JSON object.")
@click.argument("src", type=click.Path(path_type=Path, file_okay=False, exists=True))
@async_command
async def restore(data_dir: Path, src: Path, *, as_json: bool) -> int:
    """Make a data folder from a backup, and verify it.

    The data folder must not exist or be empty. The backup stays unchanged. The exit code is 1 if the restored folder
    has damage.

    \b
    Example: timeloom restore /backups/monday --data-dir restored
    """
    require_journal(src, "SRC")
    return print_copied(await copy_data_folder(src, data_dir, read_only=True), as_json=as_json)
