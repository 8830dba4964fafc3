"""`timeloom keys`: keys of the server's mode `tokens`."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from timeloom.cli.command import command_body
from timeloom.cli.options import with_settings
from timeloom.cli.sanitize import harmless
from timeloom.config.catalogue import ways_to_say
from timeloom.config.resolve import Loaded
from timeloom.ports.ids import RandomIds

if TYPE_CHECKING:
    from timeloom.server.auth.authenticate import Key

ID_CHARS: Final = 12
"""How much of a hash is shown: enough to tell keys apart."""
LEAST_ID_CHARS: Final = 6
"""How much of it names a key; less could be a slip."""


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

    It is printed this once: the file keeps its hash. A server that runs knows it within a second.
    """
    # Lazy: the web framework takes 75 ms to load.
    from timeloom.server.auth.api_keys import add_key  # noqa: PLC0415
    from timeloom.server.auth.authenticate import Caller, new_token  # noqa: PLC0415

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


@keys.command("list")
@with_settings("server.tokens_file")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@command_body
async def list_keys(loaded: Loaded, as_json: bool) -> int:
    """List the keys: the beginnings of their hashes, and whose they are."""
    for key in _known(loaded):
        said = {"id": _id(key), "tenant": key.tenant, "project": key.project, "user": key.user, "role": key.role}
        line = f"{said['id']}  {key.role:<8}  {key.tenant}/{key.project}  {harmless(key.user)}"
        click.echo(msgspec.json.encode(said) if as_json else line)
    return 0


@keys.command("remove")
@with_settings("server.tokens_file")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@command_body
async def remove(loaded: Loaded, ids: tuple[str, ...]) -> int:
    """Take keys back, by the ids that `timeloom keys list` shows.

    A server that runs does not know them any more within a second, and ends what is open with them.
    """
    from timeloom.server.auth.api_keys import remove_keys  # noqa: PLC0415 - as above

    known = _known(loaded)
    remove_keys(_file(loaded), [_named(name, known) for name in ids])
    return 0


def _known(loaded: Loaded) -> "tuple[Key, ...]":
    from timeloom.server.auth.api_keys import read_keys  # noqa: PLC0415 - as above

    return read_keys(_file(loaded))


def _named(name: str, known: "tuple[Key, ...]") -> "Key":
    """The one key whose hash begins so."""
    found = [key for key in known if key.sha256.startswith(name.lower())]
    if len(name) < LEAST_ID_CHARS or len(found) != 1:
        why = f"{len(found)} keys have" if len(found) > 1 and len(name) >= LEAST_ID_CHARS else "no key has"
        raise click.UsageError(f"{why} the id {harmless(name[:80])!r}; `timeloom keys list` shows them")
    return found[0]


def _id(key: "Key") -> str:
    return key.sha256[:ID_CHARS]


def _file(loaded: Loaded) -> Path:
    path = loaded.settings.server.tokens_file
    if path is None:
        raise click.UsageError(f"where are the keys? Name the file: {ways_to_say('server.tokens_file')}")
    return path
