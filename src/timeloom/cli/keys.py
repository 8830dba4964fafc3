"""`timeloom keys`: keys of the server's mode `tokens`."""

from pathlib import Path

import click
import msgspec

from timeloom.cli.options import with_settings
from timeloom.cli.shared import command_body
from timeloom.config.resolve import Loaded
from timeloom.config.table import ways_to_say
from timeloom.ports.ids import RandomIds


@click.group()
def keys() -> None:
    """Keys of `timeloom serve --mode tokens`: a file has their hashes and whose they are."""


@keys.command("add")
@with_settings("server.tokens_file")
@click.option("--user", required=True, help="Whose key it is.")
@click.option("--tenant", required=True, help="Their tenant; * is all of them.")
@click.option("--project", required=True, help="Their project; * is all of the tenant.")
@click.option(
    "--role", type=click.Choice(["user", "approver", "admin"]), default="user", show_default=True, help="What they may."
)
@command_body
async def add(loaded: Loaded, user: str, tenant: str, project: str, role: str) -> int:
    """Make a key and print it.

    It is printed this once: the file keeps its hash. A server that runs knows it within a second. To take a key back,
    take its section out of the file.
    """
    # Lazy: the web framework takes 75 ms to load.
    from timeloom.server.access import Caller, new_token  # noqa: PLC0415
    from timeloom.server.key_file import add_key  # noqa: PLC0415

    path = _file(loaded)
    said = {"user": user, "tenant": tenant, "project": project, "role": role}
    if not all(value.isprintable() for value in said.values()):
        raise click.UsageError("names have no control characters")
    try:
        caller = msgspec.convert(said, Caller)
    except msgspec.ValidationError as error:
        raise click.UsageError(f"that is no owner of a key: {error}") from error
    token = new_token(RandomIds())
    add_key(path, token, caller)
    click.echo(token)
    return 0


def _file(loaded: Loaded) -> Path:
    path = loaded.settings.server.tokens_file
    if path is None:
        raise click.UsageError(f"where are the keys? Name the file: {ways_to_say('server.tokens_file')}")
    return path
