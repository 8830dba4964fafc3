"""The `timeloom` command and the options that its commands share."""

import click

from timeloom import __version__
from timeloom.cli.approve import approve
from timeloom.cli.chat import chat
from timeloom.cli.demo import demo
from timeloom.cli.entry import Entry
from timeloom.cli.erase import erase
from timeloom.cli.export import export
from timeloom.cli.fork import fork
from timeloom.cli.inspect import inspect
from timeloom.cli.keys import keys
from timeloom.cli.model import model
from timeloom.cli.replay import replay
from timeloom.cli.serve import serve
from timeloom.cli.settings import settings
from timeloom.cli.verify import verify
from timeloom.cli.worker import worker


@click.group(cls=Entry, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="timeloom")
def main() -> None:
    """timeloom: agents whose every step is a block on one append-only timeline.

    New here? `timeloom demo` writes a small conversation, shows it, and checks that it is stored well.

    \b
    Exit codes: 0 all is well, 1 something failed (stderr says what and what to do), 2 the command was not understood.
    """


for command in (
    approve,
    chat,
    demo,
    erase,
    export,
    fork,
    inspect,
    keys,
    model,
    replay,
    serve,
    settings,
    verify,
    worker,
):
    main.add_command(command)
