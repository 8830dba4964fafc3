"""Defines the `timeloom` command; each subcommand is imported when it is used."""

from importlib import import_module
from typing import Final

import click

from timeloom import __version__
from timeloom.cli.entry_point import CommandGroup

COMMANDS: Final = {
    "approve": "Approve or refuse the call that a turn waits for, and resume the turn.",
    "backup": "Copy a data folder to a new folder, also while programs use it.",
    "chat": "Chat with an agent.",
    "delete": "Delete conversations permanently, with their payloads, files and search terms.",
    "demo": "Write a sample conversation, show it, export it and verify the data folder.",
    "erase": "Erase the content of some paths of a conversation, or all of it, permanently.",
    "export": "Export conversations as `conv.timeline.v1` JSON, with their sources pools.",
    "fork": "Copy a conversation into a new one.",
    "import": "Import conversations that `timeloom export` has written.",
    "inspect": "Show a timeline block by block, or one block in full.",
    "instructions": "Show the sections of the system text with their versions, conditions and tokens.",
    "keys": "Add, list and remove the API keys of `timeloom serve --mode tokens`.",
    "list": "List the conversations of a data folder, the most recently updated first.",
    "model": "Serve a scripted model, or score a model, without a conversation.",
    "new": "Write a small bundle with a test to a new folder.",
    "replay": "Rebuild the requests of past model calls and compare their hashes with the recorded ones.",
    "restore": "Make a data folder from a backup, and verify it.",
    "retention": "Delete conversations whose last entry is older than the retention period.",
    "serve": "Serve conversations over HTTP.",
    "settings": "Show every setting, its value and its origin.",
    "spend": "Show what model calls have cost, by day, user, model or conversation.",
    "verify": "Check every stored conversation and payload.",
    "worker": "Resume every open turn, then exit.",
}
"""Every command with its short help, which equals the first line of the command's help.

The command is the function of that name in the module of that name, unless `FUNCTIONS` has another name."""
FUNCTIONS: Final = {"import": "import_archive"}
"""Functions and modules of commands whose names Python reserves."""
COMMAND_PACKAGES: Final = {"demo", "model", "new", "replay"}
"""Commands that are packages; their module `command` defines the command."""


def module_of(command: str) -> str:
    """Return the name of the module that defines a command."""
    return f"timeloom.cli.commands.{FUNCTIONS.get(command, command)}{'.command' if command in COMMAND_PACKAGES else ''}"


class LazyCommandGroup(CommandGroup):
    """A command group that imports only the command to run, and none to list all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command; None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        return getattr(import_module(module_of(cmd_name)), FUNCTIONS.get(cmd_name, cmd_name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands into the help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyCommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="timeloom")
def main() -> None:
    """timeloom: run agents that record every step as a block on one append-only timeline.

    Start with `timeloom demo`: it writes a sample conversation, shows it and verifies how it is stored. Then
    `timeloom chat` starts a conversation. `timeloom COMMAND --help` describes each command.

    \b
    Exit codes: 0 success, 1 failure (stderr says what failed and how to fix it), 2 invalid options or settings.
    """
