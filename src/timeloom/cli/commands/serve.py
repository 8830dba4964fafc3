"""`timeloom serve`: conversations over HTTP."""

import asyncio
from functools import partial

import click

from timeloom.cli.chat.conversations import with_model
from timeloom.cli.command import command_body
from timeloom.cli.options import OPTION_KEYS, SERVER_KEYS, with_settings
from timeloom.config.resolve import Loaded


def _quick_loop() -> asyncio.AbstractEventLoop:
    """An event loop in C where there is one; it is not there for Windows."""
    try:
        import uvloop  # noqa: PLC0415 - only what serves needs it
    except ModuleNotFoundError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@click.command()
@with_settings(*OPTION_KEYS, *SERVER_KEYS)
@partial(command_body, new_loop=_quick_loop)
async def serve(loaded: Loaded) -> int:
    """Serve conversations over HTTP.

    Prints the address, and in the mode local the token that every request needs. Turns that an earlier run left open
    go on. Ends with SIGINT or SIGTERM: streams end, turns get a moment, and those that still run are kept as they are
    and go on at the next start.
    """
    # Lazy: the web server takes 150 ms to load, which no other command needs.
    from timeloom.cli.commands.serve_run import run_server  # noqa: PLC0415

    return await run_server(with_model(loaded.settings))
