"""The `timeloom` command: a table of its commands, each of which is loaded when it is used."""

from importlib import import_module
from typing import Final

import click

from timeloom import __version__
from timeloom.cli.entry_point import Entry

COMMANDS: Final = {
    "approve": "Decide what a turn waits for, and go on with it.",
    "chat": "Talk with an agent.",
    "demo": "Write a small conversation, show it, export it and verify the folder.",
    "erase": "Remove for good what a conversation holds at some paths, or all of it.",
    "export": "Write conversations as `conv.timeline.v1`, with their sources pools.",
    "fork": "Copy a conversation into a new one.",
    "inspect": "Show a timeline block by block, or one block in full.",
    "keys": "Keys of `timeloom serve --mode tokens`: a file has their hashes and whose they are.",
    "model": "Models by themselves, without a conversation.",
    "replay": "Make the requests of past model calls again and compare their hashes with the recorded ones.",
    "serve": "Serve conversations over HTTP.",
    "settings": "Show every setting, its value and where that comes from.",
    "verify": "Check every stored conversation and payload.",
    "worker": "Go on with every turn that was left open, then exit.",
}
"""What each does, in the words of its own help. The command is the function of that name in the module of that name."""
FOLDERS: Final = {"demo", "model", "replay"}
"""Commands that are folders; the command itself stands in their module `command`."""


def module_of(command: str) -> str:
    """The module that a command is loaded from."""
    return f"timeloom.cli.commands.{command}{'.command' if command in FOLDERS else ''}"


class Commands(Entry):
    """A group that loads the command that was typed, and none to list them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, loaded now."""
        return getattr(import_module(module_of(cmd_name)), cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="timeloom")
def main() -> None:
    """timeloom: agents whose every step is a block on one append-only timeline.

    New here? `timeloom demo` writes a small conversation, shows it, and checks that it is stored well.

    \b
    Exit codes: 0 all is well, 1 something failed (stderr says what and what to do), 2 the command was not understood.
    """
