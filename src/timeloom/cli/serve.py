"""`timeloom serve`: conversations over HTTP."""

import click

from timeloom.cli.options import OPTION_KEYS, SERVER_KEYS, with_settings
from timeloom.cli.rooms import with_model
from timeloom.cli.shared import command_body
from timeloom.config.resolve import Loaded


@click.command()
@with_settings(*OPTION_KEYS, *SERVER_KEYS)
@command_body
async def serve(loaded: Loaded) -> int:
    """Serve conversations over HTTP.

    Prints the address, and in the mode local the token that every request needs. Turns that an earlier run left open
    go on. Ends with SIGINT or SIGTERM: streams end, turns get a moment, and those that still run are kept as they are
    and go on at the next start.
    """
    # Lazy: the web server takes 150 ms to load, which no other command needs.
    from timeloom.cli.serve_run import run_server  # noqa: PLC0415

    return await run_server(with_model(loaded.settings))
