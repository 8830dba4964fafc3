"""`timeloom serve`: serves conversations over HTTP."""

import asyncio
from functools import partial

import click

from timeloom.cli.chat.conversations import with_default_model
from timeloom.cli.command import async_command
from timeloom.cli.options import OPTION_KEYS, SERVER_KEYS, with_settings
from timeloom.config.resolve import LoadedSettings


def _new_fast_loop() -> asyncio.AbstractEventLoop:
    """Return a uvloop event loop if it is installed (it is not available on Windows), otherwise the default one."""
    try:
        import uvloop  # noqa: PLC0415 - only the server needs it
    except ModuleNotFoundError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@click.command()
@with_settings(*OPTION_KEYS, *SERVER_KEYS)
@partial(async_command, new_loop=_new_fast_loop)
async def serve(loaded: LoadedSettings) -> int:
    """Serve conversations over HTTP.

    Prints the address, the page to open in a browser and, in mode local, the token that every request needs. Turns that
    an earlier run left open are resumed. SIGINT or SIGTERM ends the server: streams are closed, and turns get a grace
    period. Turns that still run then stay open and resume at the next start.

    \b
    Example: timeloom serve --model anthropic:ID --port 8700
    """
    # Lazy: the web server takes 150 ms to load, which no other command needs.
    from timeloom.cli.commands.serve_run import run_server  # noqa: PLC0415

    return await run_server(with_default_model(loaded.settings))
