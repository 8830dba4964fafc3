"""`timeloom model`: models by themselves, served or checked."""

import logging
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import click

from timeloom.cli.command import command_body, complain
from timeloom.cli.options import with_settings
from timeloom.config.resolve import Loaded
from timeloom.core.codes import CodedError

SHUTDOWN_S = 3
"""How long a reply that is being streamed may go on after the command was told to end."""


@click.group()
def model() -> None:
    """Models by themselves, without a conversation."""


@model.command()
@click.option(
    "--script",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="YAML file that says what is answered.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=8701, show_default=True, help="0 takes a free one.")
@click.pass_context
def serve(context: click.Context, script: Path, port: int) -> None:
    """Serve the scripted model to any client, on this machine only.

    Answers OpenAI's `/v1/chat/completions` and Anthropic's `/v1/messages`, streaming or not.
    Ends with SIGINT or SIGTERM.
    """
    # Lazy: the web server takes 150 ms to load, which no other command needs.
    import uvicorn  # noqa: PLC0415

    from timeloom.testing import ScriptedModel  # noqa: PLC0415
    from timeloom.testing.model_endpoint.app import model_app  # noqa: PLC0415

    try:
        app = model_app(ScriptedModel.from_file(script))
    except CodedError as error:
        complain(error)
        context.exit(1)
    try:
        listener = socket.create_server(("127.0.0.1", port), backlog=1024)
    except OSError as error:
        raise click.ClickException(
            f"port {port} cannot be used: {error.strerror}; choose another with --port"
        ) from error
    # A script that cuts a reply is no fault of the server that it should report.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=SHUTDOWN_S
    )
    server = uvicorn.Server(config)

    def leave(_number: int, _frame: FrameType | None) -> None:
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        # Before the server listens to signals, and after: it raises them once more when it has ended.
        signal.signal(number, leave)
    # asyncio sees to it only on sockets that it made itself; without it a delta waits 40 ms for the one before.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with listener:
        click.echo(f"serving {script.name} on http://127.0.0.1:{listener.getsockname()[1]}")
        server.run(sockets=[listener])


@model.command()
@with_settings("model")
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Only this group (requests, recovery, odd, stream) or the case of this id; may be repeated.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most so many cases of each group.")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Exit with 1 where the score, or the share of well-formed replies, is below this.",
)
@command_body
async def check(
    loaded: Loaded, *, as_json: bool, only: Sequence[str], limit: int | None, threshold: float | None
) -> int:
    """Score a model or endpoint.

    Each of the published requests is asked once, in a prompt as conversations have it, and the reply is judged by
    rules: is it well-formed, is it the right tool, are the parameters right, is a mistake mended after a notice. Stream
    checks look at how replies arrive. Exits with 1 if the model cannot be asked.
    """
    # Lazy: the suite takes 40 ms to load, which no other command needs.
    from timeloom.cli.commands.model.check import run_check  # noqa: PLC0415
    from timeloom.testing.conformance.running import Selection  # noqa: PLC0415

    selection = Selection(only=tuple(only), limit=limit)
    return await run_check(loaded.settings, selection, as_json=as_json, threshold=threshold)
