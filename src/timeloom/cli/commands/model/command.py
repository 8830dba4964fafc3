"""`timeloom model`: serves a scripted model or scores a model."""

import logging
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Literal

import click

from timeloom.cli.command import async_command, print_error
from timeloom.cli.options import with_settings
from timeloom.config.resolve import LoadedSettings
from timeloom.core.codes import CodedError

SHUTDOWN_S = 3
"""Grace period for a streaming reply after the signal to end."""


@click.group()
def model() -> None:
    """Serve a scripted model, or score a model, without a conversation."""


@model.command()
@click.option(
    "--script",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="YAML file with the replies.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=8701, show_default=True, help="0 chooses a free port.")
@click.pass_context
def serve(context: click.Context, script: Path, port: int) -> None:
    """Serve the scripted model over HTTP, on this machine only.

    Answers OpenAI's `/v1/chat/completions` and Anthropic's `/v1/messages`, streaming or not. SIGINT or SIGTERM ends it.

    \b
    Example: timeloom model serve --script replies.yaml --port 8701
    """
    # Lazy: the web server takes 150 ms to load, which no other command needs.
    import uvicorn  # noqa: PLC0415

    from timeloom.testing import ScriptedModel  # noqa: PLC0415
    from timeloom.testing.model_endpoint.app import model_app  # noqa: PLC0415

    try:
        app = model_app(ScriptedModel.from_file(script))
    except CodedError as error:
        print_error(error)
        context.exit(1)
    try:
        listener = socket.create_server(("127.0.0.1", port), backlog=1024)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on port {port}: {error.strerror}; choose another with --port"
        ) from error
    # A script may cut a reply on purpose, so the server must not log that as an error.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=SHUTDOWN_S
    )
    server = uvicorn.Server(config)

    def stop_server(_number: int, _frame: FrameType | None) -> None:
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        # Handles signals before uvicorn installs its handlers, and when it raises them again at its end.
        signal.signal(number, stop_server)
    # asyncio sets this only on sockets that it created; without it, a delta waits 40 ms for the previous one.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with listener:
        click.echo(f"serving {script.name} on http://127.0.0.1:{listener.getsockname()[1]}")
        server.run(sockets=[listener])


@model.command()
@with_settings("model")
@click.option("--json", "as_json", is_flag=True, help="Print the full report as JSON.")
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Run only this group (requests, recovery, odd, stream) or the case with this id; may be repeated.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Run at most N cases of each group.")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Exit with 1 if the score or the share of well-formed replies is below this, from 0 to 1. "
    "Of two protocols, the better one counts.",
)
@click.option(
    "--protocol",
    "protocol",
    type=click.Choice(["channels", "native", "both"]),
    help="How the model states its decisions; by default both where its provider has native tool calling.",
)
@click.option(
    "--edition",
    type=click.IntRange(1, 3),
    metavar="N",
    help="Edition of the prompts and replies, 1 to 3; by default the setting `context.edition`.",
)
@async_command
async def check(
    loaded: LoadedSettings,
    *,
    as_json: bool,
    only: Sequence[str],
    limit: int | None,
    threshold: float | None,
    protocol: Literal["channels", "native", "both"] | None,
    edition: int | None,
) -> int:
    """Score a model or endpoint with the conformance suite.

    Sends each published request once, in the prompt of a conversation. Rules judge the reply: is it well-formed, does
    it call the right tool with the right parameters, does it correct a mistake after a notice? Stream checks test how
    replies arrive. The suite makes about 105 requests for each protocol. Exits with 1 if the model cannot be reached.

    \b
    Example: timeloom model check --model openai:ID --limit 5 --threshold 0.9
    """
    # Lazy: the suite takes 40 ms to load, which no other command needs.
    from timeloom.cli.commands.model.check import run_check  # noqa: PLC0415
    from timeloom.testing.conformance.running import Selection  # noqa: PLC0415

    selection = Selection(only=tuple(only), limit=limit, edition=edition or loaded.settings.context.edition)
    return await run_check(loaded.settings, selection, protocol, as_json=as_json, threshold=threshold)
