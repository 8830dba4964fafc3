"""`timeloom approve`: records a person's decision on a waiting call and resumes the turn."""

import sys

import click

from timeloom.cli.chat.conversations import open_local_conversations, with_default_model
from timeloom.cli.chat.plain import PlainChat, print_approval_commands
from timeloom.cli.chat.plain_output import JsonOutput, PlainOutput
from timeloom.cli.chat.terminal.approvals import ApprovalQuestion, find_pending_approval
from timeloom.cli.command import async_command
from timeloom.cli.options import (
    OPTION_KEYS,
    command_line_options,
    load_option_bundles,
    load_option_tools,
    with_settings,
    with_tools,
)
from timeloom.config.resolve import LoadedSettings
from timeloom.config.settings import Settings
from timeloom.core.blocks import ModelCalled
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.runtime.session.session import Session

_APPROVAL_POLICY = "tools_that_need_approval"
"""The name of the policy that `--ask-before` configures."""


@click.command()
@with_settings(*OPTION_KEYS)
@with_tools
@click.option("--refuse", is_flag=True, help="Refuse the call instead of allowing it.")
@click.option("--reason", metavar="TEXT", default="", help="A reason to record; the model reads it after a refusal.")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON, one per line.")
@click.argument("conversation")
@click.argument("call", required=False)
@async_command
async def approve(
    loaded: LoadedSettings, conversation: str, call: str | None, reason: str, *, refuse: bool, as_json: bool
) -> int:
    """Approve or refuse the call that a turn waits for, and resume the turn.

    First run it without CALL: it shows the waiting call and the exact commands that approve or refuse it. CALL is
    required to decide, so that you never approve a call you have not seen. The model and --ask-before are not stored
    with a conversation, so pass the same settings as to `timeloom chat`.

    \b
    Examples:
      timeloom approve conv_... --model anthropic:ID
      timeloom approve conv_... CALL --model anthropic:ID --refuse --reason "wrong folder"
    """
    settings = with_default_model(loaded.settings)
    output = JsonOutput() if as_json else PlainOutput()
    async with open_local_conversations(
        settings,
        create=False,
        holder="timeloom approve",
        tools=load_option_tools(),
        bundles=load_option_bundles(loaded),
    ) as conversations:
        turns = await conversations.open(ConversationId(conversation), settings.model, output)
        question = await find_pending_approval(turns.session)
        if question is None:
            raise CodedError("approval_unknown", f"no call of conversation {conversation[:60]} waits for approval")
        if call is None:
            output.on_question(question)
            print_approval_commands(
                question, turns.session.conversation, await _follow_up_options(turns.session, question, settings)
            )
            return 0
        if call != question.call_id:
            waits = f"the waiting call is {question.call_id}, for {question.tool_id[:60]}"
            raise CodedError("approval_unknown", f"the call {call[:60]!r} does not wait for approval; {waits}")
        output.on_start(turns.session.conversation)
        await turns.inbox.decide(question.call_id, not refuse, conversations.user, reason)
        chat = PlainChat(conversations, output, command_line_options(), asks=sys.stdin.isatty() and not as_json)
        return 0 if await chat.finish_turn(turns, await turns.resume()) else 1


async def _follow_up_options(session: Session, question: ApprovalQuestion, settings: Settings) -> list[str]:
    """Return the given options, plus the model and `--ask-before` that the turn used if they were not given."""
    options = command_line_options()
    if "--model" not in options and (model := await _last_model(session)):
        options += ["--model", model]
    if question.policy == _APPROVAL_POLICY and not settings.policy.ask_before:
        options += ["--ask-before", question.tool_id]
    return options


async def _last_model(session: Session) -> str:
    turn = session.views.turns.turns[session.views.progress.turn_id]
    called = [entry.block for entry in await session.entries(list(turn.seqs()))]
    names = [block.model for block in called if isinstance(block, ModelCalled) and block.purpose == "decision"]
    return names[-1] if names else ""
