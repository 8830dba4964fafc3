"""Runs the slash commands of the interactive chat, for example `/help`."""

import difflib
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from timeloom.cli.chat.display.block_summary import summarize_block
from timeloom.cli.chat.display.format import format_count, format_size, format_spend
from timeloom.cli.chat.display.labels import format_plan
from timeloom.cli.chat.terminal.attach import complete_path, read_attachment
from timeloom.cli.chat.terminal.state import ChatState
from timeloom.cli.sanitize import one_line
from timeloom.core.view.plans import plans_to_announce

MAX_SOURCES: Final = 50
MAX_BLOCKS: Final = 200
MAX_CHOICES: Final = 10


class SlashCommand(msgspec.Struct, frozen=True):
    """A slash command: its usage, its help and whether it may run while a turn runs (`any_time`)."""

    usage: str
    help: str
    run: Callable[[ChatState, str], Awaitable[None]]
    any_time: bool = True

    @property
    def name(self) -> str:
        """The command's name, without the slash."""
        return self.usage.split(" ")[0]


async def run_command(state: ChatState, line: str, *, busy: bool) -> None:
    """Run the command of the line; prints a hint if it is unknown or must wait for the end of the turn."""
    word, _, rest = line[1:].strip().partition(" ")
    command = COMMANDS.get(word.lower())
    if command is None:
        near = difflib.get_close_matches(word.lower(), COMMANDS, n=1, cutoff=0.5)
        hint = f"; did you mean /{near[0]}?" if near else "; /help lists them"
        state.transcript.print_message(
            f"unknown command /{one_line(word, 40)}{hint} (// sends a message that begins with /)"
        )
    elif busy and not command.any_time:
        state.transcript.print_message(f"/{command.name} must wait until the turn has ended; /stop ends it")
    else:
        await command.run(state, rest.strip())


def complete_command(text: str) -> str:
    """Complete a command, or a path after `/attach`, as far as it is unambiguous."""
    if text.startswith("/attach "):
        return f"/attach {complete_path(text.removeprefix('/attach '))}"
    if not text.startswith("/") or " " in text or text.startswith("//"):
        return text
    matching = [name for name in COMMANDS if name.startswith(text[1:].lower())]
    return f"/{matching[0]} " if len(matching) == 1 else text


async def _help(state: ChatState, _: str) -> None:
    rows = [(f"/{command.usage}", command.help) for command in COMMANDS.values()] + [*_KEYS]
    width = max(len(name) for name, _ in rows) + 2
    for name, meaning in rows:
        state.transcript.print_row(name, meaning, width, "help")


async def _attach(state: ChatState, words: str) -> None:
    if not words:
        names = ", ".join(file.name for file in state.attachments)
        state.transcript.print_message(
            f"attached to the next message: {names}" if names else "name a text file: /attach PATH"
        )
        return
    file = read_attachment(words)
    state.attachments.append(file)
    state.transcript.print_message(
        f"{one_line(file.name)} ({format_size(len(file.text.encode()))}) will be sent with the next message"
    )


async def _sources(state: ChatState, _: str) -> None:
    sids = sorted(state.session.views.sources.pool.rows)
    if not sids:
        state.transcript.print_message("there are no sources yet")
    state.display.print_sources(sids[-MAX_SOURCES:])


async def _plan(state: ChatState, _: str) -> None:
    plans = plans_to_announce(state.session.views.plans)
    if not plans:
        state.transcript.print_message("there is no open plan")
    for plan in plans:
        for line in format_plan(plan):
            state.transcript.print_message(line, "plain", f"plan {plan.plan_id}")


async def _timeline(state: ChatState, _: str) -> None:
    turn = state.session.views.turns.turns.get(state.session.views.turns.newest)
    seqs = list(turn.seqs()) if turn else []
    if not seqs:
        state.transcript.print_message("the timeline has no turn yet")
    for entry in await state.session.entries(seqs[-MAX_BLOCKS:]):
        summary = summarize_block(entry.block)
        state.transcript.print_line(f"{entry.seq:>5} {entry.block.type_name:<22} {summary}")


async def _cost(state: ChatState, _: str) -> None:
    spend = state.session.views.spend
    state.transcript.print_message(f"this conversation: {format_spend(spend.total)}", "plain", "cost")
    if len(spend.by_model) > 1:
        for model, one in spend.by_model.items():
            state.transcript.print_message(f"  {one_line(model, 60)}: {format_spend(one)}", "quiet", "cost")


async def _thinking(state: ChatState, _: str) -> None:
    state.transcript.print_message(state.display.thinking or "the model has shown no thinking yet", "quiet", "thinking")


async def _model(state: ChatState, name: str) -> None:
    if not name:
        state.transcript.print_message(f"the model is {state.model}")
        return
    await state.open_conversation(state.session.conversation, name)
    state.transcript.print_message(f"the model is {state.model} from the next turn on")


async def _new(state: ChatState, _: str) -> None:
    await state.open_conversation(None)


async def _resume(state: ChatState, words: str) -> None:
    found = await state.conversations.find(words, MAX_CHOICES + 1)
    found = [info for info in found if info.id != state.session.conversation][:MAX_CHOICES]
    state.choices = [info.id for info in found]
    if not found:
        state.transcript.print_message(
            f"no other conversation contains {one_line(words, 60)!r}" if words else "there is no other conversation"
        )
        return
    for n, info in enumerate(found, 1):
        when = info.last_ts[:16].replace("T", " ")
        state.transcript.print_line(f"{n:>3}. {when}  {info.title or '(no title)'}", "plain", "choices")
    state.transcript.print_message("type a number to resume that conversation", "quiet", "choices")


async def _fork(state: ChatState, turn: str) -> None:
    before = state.session.conversation
    copy = await state.conversations.fork(before, turn or None)
    await state.open_conversation(copy.conversation)
    state.transcript.print_message(
        f"forked from {before} after {format_count(copy.turns, 'turn')}; the original stays unchanged"
    )


async def _compact(state: ChatState, focus: str) -> None:
    await state.turns.inbox.request_compaction(focus)
    if state.session.views.progress.running:
        state.transcript.print_message("the conversation is compacted before the turn's next round")
    else:
        state.needs_decision = True


async def _approve(state: ChatState, _: str) -> None:
    state.needs_decision = state.session.views.progress.running
    if not state.needs_decision:
        state.transcript.print_message("no call waits for a decision")


async def _form(state: ChatState, _: str) -> None:
    state.needs_answer = bool(state.session.views.forms.open_forms())
    if not state.needs_answer:
        state.transcript.print_message("no form waits for an answer")


async def _stop(state: ChatState, _: str) -> None:
    if await state.turns.inbox.steer() is None:
        state.transcript.print_message("no turn is running")
    else:
        state.needs_decision = True


async def _quit(state: ChatState, _: str) -> None:
    state.is_quitting = True


COMMANDS: Final = {
    command.name: command
    for command in (
        SlashCommand("attach PATH", "send a text file with the next message", _attach),
        SlashCommand("sources", "list the sources of this conversation", _sources),
        SlashCommand("plan", "show the open plans", _plan),
        SlashCommand("timeline", "list the blocks of the last turn", _timeline),
        SlashCommand("thinking", "show the model's last thinking in full", _thinking),
        SlashCommand("cost", "show tokens and cost so far", _cost),
        SlashCommand("model [NAME]", "show the model, or change it from the next turn on", _model, any_time=False),
        SlashCommand("resume [WORDS]", "list earlier conversations that contain the words", _resume, any_time=False),
        SlashCommand(
            "fork [TURN]", "continue in a copy: of all turns, or up to turn number TURN", _fork, any_time=False
        ),
        SlashCommand("compact [FOCUS]", "summarize all but the newest rounds; the focus says what to keep", _compact),
        SlashCommand("approve", "decide on the call that the turn waits for", _approve, any_time=False),
        SlashCommand("form", "answer the form by which the agent asks", _form, any_time=False),
        SlashCommand("stop", "end the turn that runs or waits", _stop),
        SlashCommand("new", "start a new conversation", _new, any_time=False),
        SlashCommand("help", "show this list", _help),
        SlashCommand("quit", "quit; a running turn resumes when its conversation is opened again", _quit),
    )
}

_KEYS: Final[tuple[tuple[str, str], ...]] = (
    ("Enter", "send the message; while a turn runs: add it to the turn"),
    ("Alt-Enter", "insert a line break"),
    ("Ctrl-C", "while a turn runs: give new instructions or stop it; twice: quit"),
    ("Ctrl-D", "quit"),
    ("//text", "send a message that begins with a slash"),
    ("a number", "send a suggested follow-up, or open a listed conversation"),
)
