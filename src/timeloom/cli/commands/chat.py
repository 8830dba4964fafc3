"""`timeloom chat`: a conversation in the terminal."""

import sys

import click

from timeloom.cli.chat.conversations import Rooms, open_rooms, with_model
from timeloom.cli.chat.plain import Lines
from timeloom.cli.chat.plain_output import JsonOutput, PlainOutput
from timeloom.cli.chat.terminal.supported import takes_terminal
from timeloom.cli.command import command_body
from timeloom.cli.options import OPTION_KEYS, typed_options, with_settings
from timeloom.cli.sanitize import one_line
from timeloom.config.resolve import Loaded
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId


@click.command()
@with_settings(*OPTION_KEYS)
@click.option("--conversation", metavar="ID", help="Go on with this conversation instead of beginning one.")
@click.option(
    "--resume",
    metavar="[WORDS]",
    is_flag=False,
    flag_value="",
    help="Go on with the newest conversation, or with the newest in which these words were said.",
)
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON, one a line.")
@command_body
async def chat(loaded: Loaded, conversation: str | None, resume: str | None, *, as_json: bool) -> int:
    """Talk with an agent.

    On a terminal: type while it works, /help lists what else can be typed. Where standard input or output is not a
    terminal, every line of input is a message; the answers go to standard output, all else to standard error. The
    conversation is stored in the data folder and can be gone on with.
    """
    if conversation is not None and resume is not None:
        raise click.UsageError("--conversation and --resume both say which conversation; give one of them")
    settings = with_model(loaded.settings)
    async with open_rooms(settings) as rooms:
        known = await _conversation(rooms, conversation, resume)
        if not as_json and takes_terminal():
            return await _hold(rooms, known)
        output = JsonOutput() if as_json else PlainOutput()
        asks = sys.stdin.isatty() and not as_json
        return await Lines(rooms, output, typed_options(), asks=asks).answer(known)


async def _conversation(rooms: Rooms, wanted: str | None, words: str | None) -> ConversationId | None:
    if words is None:
        return None if wanted is None else ConversationId(wanted)
    found = await rooms.find(words, 1)
    if not found:
        which = f"in which {one_line(words, 60)!r} was said" if words else "to go on with"
        raise CodedError("conversation_unknown", f"there is no conversation {which}")
    return found[0].id


async def _hold(rooms: Rooms, conversation: ConversationId | None) -> int:
    from timeloom.cli.chat.terminal.chat_loop import talk  # noqa: PLC0415 - what draws takes 250 ms to load

    return await talk(rooms, conversation)
