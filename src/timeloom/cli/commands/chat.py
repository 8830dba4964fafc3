"""`timeloom chat`: runs a conversation in the terminal or over a pipe."""

import os
import sys

import click

from timeloom.cli.chat.conversations import LocalConversations, open_local_conversations, with_default_model
from timeloom.cli.chat.plain import PlainChat
from timeloom.cli.chat.plain_output import JsonOutput, PlainOutput
from timeloom.cli.chat.single_turn import SingleTurn, parse_prompt, read_context
from timeloom.cli.command import async_command
from timeloom.cli.options import (
    OPTION_KEYS,
    command_line_options,
    load_option_bundles,
    load_option_tools,
    with_settings,
    with_tools,
)
from timeloom.cli.sanitize import one_line
from timeloom.config.resolve import LoadedSettings
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId


@click.command()
@with_settings(*OPTION_KEYS)
@with_tools
@click.option("--conversation", metavar="ID", help="Resume this conversation instead of starting a new one.")
@click.option(
    "--resume",
    metavar="[WORDS]",
    is_flag=False,
    flag_value="",
    help="Resume your newest conversation, or the newest one that contains these words.",
)
@click.option(
    "-p",
    "--prompt",
    metavar="TEXT",
    help="Send this one message, print its answer and exit. Standard input is attached as context.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print events as JSON, one per line; with -p, one object at the end."
)
@async_command
async def chat(
    loaded: LoadedSettings, conversation: str | None, resume: str | None, prompt: str | None, *, as_json: bool
) -> int:
    """Chat with an agent.

    On a terminal you can type while the agent works; /help lists the commands and keys. If standard input or output is
    not a terminal, each line of input is a message, or the command /compact. Answers then go to standard output,
    everything else to standard error. The conversation is stored in the data folder. The model is not stored with it:
    pass it again to resume.

    \b
    Examples:
      timeloom chat --model anthropic:ID
      timeloom chat --model anthropic:ID --resume ferries
      timeloom chat --model anthropic:ID --bundle ./shop
      echo "Summarize notes.md" | timeloom chat --model anthropic:ID
      git diff | timeloom chat --model anthropic:ID -p "Review this change"
    """
    if conversation is not None and resume is not None:
        raise click.UsageError("--conversation and --resume exclude each other; pass only one")
    message = None if prompt is None else parse_prompt(prompt)
    settings = with_default_model(loaded.settings)
    files = () if message is None else read_context()
    tools, bundles = load_option_tools(), load_option_bundles(loaded)
    async with open_local_conversations(settings, tools=tools, bundles=bundles) as conversations:
        known = await _find_conversation(conversations, conversation, resume)
        if message is not None:
            return await SingleTurn(conversations, command_line_options(), as_json=as_json).run(known, message, files)
        if not as_json and _can_use_screen():
            return await _run_terminal_chat(conversations, known)
        output = JsonOutput() if as_json else PlainOutput()
        asks = sys.stdin.isatty() and not as_json
        return await PlainChat(conversations, output, command_line_options(), asks=asks).run(known)


def _can_use_screen() -> bool:
    """Return whether standard input and output are a terminal that can move its cursor."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


async def _find_conversation(
    conversations: LocalConversations, wanted: str | None, words: str | None
) -> ConversationId | None:
    if words is None:
        return None if wanted is None else ConversationId(wanted)
    found = await conversations.find(words, 1)
    if not found:
        which = f"that contains {one_line(words, 60)!r}" if words else "to resume"
        raise CodedError("conversation_unknown", f"there is no conversation {which}")
    return found[0].id


async def _run_terminal_chat(conversations: LocalConversations, conversation: ConversationId | None) -> int:
    from timeloom.cli.chat.terminal.chat_loop import run_chat  # noqa: PLC0415 - the terminal libraries take 250 ms to load

    return await run_chat(conversations, conversation)
