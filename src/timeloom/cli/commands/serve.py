"""`timeloom serve`: serves conversations over HTTP."""

import asyncio
from collections.abc import Sequence
from functools import partial
from urllib.parse import quote

import click

from timeloom.bundles.registry import BundleRegistry
from timeloom.cli.chat.conversations import with_default_model
from timeloom.cli.command import async_command
from timeloom.cli.options import (
    OPTION_KEYS,
    SERVER_KEYS,
    load_option_bundles,
    load_option_tools,
    with_settings,
    with_tools,
)
from timeloom.config.errors import ServerConfigError
from timeloom.config.resolve import LoadedSettings
from timeloom.config.settings import Settings
from timeloom.ports.tool import Tool


def _new_fast_loop() -> asyncio.AbstractEventLoop:
    """Return a uvloop event loop if it is installed (it is not available on Windows), otherwise the default one."""
    try:
        import uvloop  # noqa: PLC0415 - only the server needs it
    except ModuleNotFoundError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@click.command()
@with_settings(*OPTION_KEYS, *SERVER_KEYS)
@with_tools
@click.option(
    "--reload-bundles",
    is_flag=True,
    help="Load a bundle's folder again before a turn if a file in it has changed, for development.",
)
@partial(async_command, new_loop=_new_fast_loop)
async def serve(loaded: LoadedSettings, *, reload_bundles: bool) -> int:
    """Serve conversations over HTTP.

    Prints the address, the page to open in a browser and, in mode local, the token that every request needs. Turns that
    an earlier run left open are resumed. SIGINT or SIGTERM ends the server: streams are closed, and turns get a grace
    period. Turns that still run then stay open and resume at the next start.

    \b
    Examples:
      timeloom serve --model anthropic:ID --port 8700
      timeloom serve --model anthropic:ID --tools my_tools:weather
      timeloom serve --model anthropic:ID --bundle ./shop --bundle ./desk
    """
    # Lazy: the web server takes 150 ms to load, which no other command needs.
    from timeloom.server.observability.logs import log_to_stderr  # noqa: PLC0415

    # Before the bundles are loaded, because the log names their faults.
    log_to_stderr()
    settings = with_default_model(loaded.settings)
    tools, bundles = load_option_tools(), load_option_bundles(loaded, reloads=reload_bundles)
    return await _serve_until_signalled(settings, tools, bundles)


async def _serve_until_signalled(settings: Settings, tools: Sequence[Tool], bundles: BundleRegistry) -> int:
    # Lazy, as above.
    from timeloom.server import bootstrap, http_server  # noqa: PLC0415
    from timeloom.server.http.connection_limits import raise_descriptor_limit  # noqa: PLC0415

    raise_descriptor_limit()
    try:
        async with bootstrap.serve(settings, tools=tools, bundles=bundles) as server:
            server.shut_down_on_signals()
            bootstrap.tune_garbage_collection()
            _print_address(server.url, server.token)
            await server.wait()
    except ServerConfigError as error:
        raise click.UsageError(str(error)) from error
    except http_server.ListenError as error:
        raise click.ClickException(
            f"cannot listen on port {settings.server.port} of {settings.server.host}: {error.strerror}; "
            "choose another with --port"
        ) from error
    return 0


def _print_address(url: str, token: str) -> None:
    click.echo(f"serving on {url}")
    if token:
        click.echo(f"token: {token}")
    query = f"?token={quote(token)}" if token else ""
    click.echo(f"page: {url}/{query}")
