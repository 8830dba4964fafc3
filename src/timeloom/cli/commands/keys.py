"""`timeloom keys`: manages the API keys of the server mode `tokens`."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from timeloom.cli.command import async_command
from timeloom.cli.options import with_settings
from timeloom.cli.sanitize import sanitize
from timeloom.config.catalogue import describe_how_to_set
from timeloom.config.resolve import LoadedSettings
from timeloom.ports.ids import RandomIds

if TYPE_CHECKING:
    from timeloom.server.auth.api_keys import ApiKey

ID_CHARS: Final = 12
"""Length of a key's id, the beginning of its hash: enough to tell keys apart."""
MIN_ID_CHARS: Final = 6
"""Minimum length of an id that names a key; a shorter one could be a typing error."""


@click.group()
def keys() -> None:
    """Add, list and remove the API keys of `timeloom serve --mode tokens`.

    The key file holds the hash, the owner and the role of each key.
    """


@keys.command("add")
@with_settings("server.tokens_file")
@click.option("--user", required=True, help="The owner of the key.")
@click.option("--tenant", required=True, help="The owner's tenant; * means all tenants.")
@click.option("--project", required=True, help="The owner's project; * means all projects.")
@click.option(
    "--role", type=click.Choice(["user", "approver", "admin"]), default="user", show_default=True, help="The role."
)
@async_command
async def add(loaded: LoadedSettings, user: str, tenant: str, project: str, role: str) -> int:
    """Create a key and print it.

    The key is printed only once; the file stores its hash. A running server accepts it within a second.

    \b
    Example: timeloom keys add --tokens-file keys.toml --user ann --tenant acme --project '*'
    """
    # Lazy: the web framework takes 75 ms to load.
    from timeloom.server.auth.api_key_file import add_key  # noqa: PLC0415
    from timeloom.server.auth.api_keys import new_token  # noqa: PLC0415
    from timeloom.server.auth.principal import Principal  # noqa: PLC0415

    path = _key_file(loaded)
    owner = {"user": user, "tenant": tenant, "project": project, "role": role}
    try:
        caller = msgspec.convert(owner, Principal)
    except msgspec.ValidationError as error:
        raise click.UsageError(f"invalid owner of a key: {error}") from error
    token = new_token(RandomIds())
    add_key(path, token, caller)
    click.echo(token)
    return 0


@keys.command("list")
@with_settings("server.tokens_file")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@async_command
async def list_keys(loaded: LoadedSettings, as_json: bool) -> int:
    """List the keys: id (the beginning of the hash), role, tenant, project and user."""
    for key in _read_keys(loaded):
        fields = {
            "id": _short_id(key),
            "tenant": key.tenant,
            "project": key.project,
            "user": key.user,
            "role": key.role,
        }
        line = f"{fields['id']}  {key.role:<8}  {key.tenant}/{key.project}  {sanitize(key.user)}"
        click.echo(msgspec.json.encode(fields) if as_json else line)
    return 0


@keys.command("remove")
@with_settings("server.tokens_file")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@async_command
async def remove(loaded: LoadedSettings, ids: tuple[str, ...]) -> int:
    """Remove keys by the ids that `timeloom keys list` shows.

    A running server rejects them within a second and closes their open connections.
    """
    from timeloom.server.auth.api_key_file import remove_keys  # noqa: PLC0415 - as above

    known = _read_keys(loaded)
    remove_keys(_key_file(loaded), [_find_key(name, known) for name in ids])
    return 0


def _read_keys(loaded: LoadedSettings) -> "tuple[ApiKey, ...]":
    from timeloom.server.auth.api_key_file import read_keys  # noqa: PLC0415 - as above

    return read_keys(_key_file(loaded))


def _find_key(name: str, known: "tuple[ApiKey, ...]") -> "ApiKey":
    """Return the only key whose hash begins with `name`; raises a usage error for none or several."""
    found = [key for key in known if key.sha256.startswith(name.lower())]
    if len(name) < MIN_ID_CHARS or len(found) != 1:
        why = f"{len(found)} keys have" if len(found) > 1 and len(name) >= MIN_ID_CHARS else "no key has"
        raise click.UsageError(f"{why} the id {sanitize(name[:80])!r}; `timeloom keys list` shows all ids")
    return found[0]


def _short_id(key: "ApiKey") -> str:
    return key.sha256[:ID_CHARS]


def _key_file(loaded: LoadedSettings) -> Path:
    path = loaded.settings.server.tokens_file
    if path is None:
        raise click.UsageError(f"no key file is set; name it: {describe_how_to_set('server.tokens_file')}")
    return path
