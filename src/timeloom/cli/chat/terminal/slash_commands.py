"""Runs the slash commands of the interactive chat, for example `/help`."""

import difflib
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from timeloom.cli.chat.display.block_summary import gist
from timeloom.cli.chat.display.format import cost_line, counted, size
from timeloom.cli.chat.display.labels import plan_lines
from timeloom.cli.chat.terminal.attach import read_file
from timeloom.cli.chat.terminal.state import Floor
from timeloom.cli.sanitize import one_line
from timeloom.core.view.plans import announced

MAX_SOURCES: Final = 50
MAX_BLOCKS: Final = 200
MAX_CHOICES: Final = 10


class Command(msgspec.Struct, frozen=True):
    """A slash command: its usage, its help and whether it may run while a turn runs (`any_time`)."""

    usage: str
    help: str
    run: Callable[[Floor, str], Awaitable[None]]
    any_time: bool = True

    @property
    def name(self) -> str:
        """The command's name, without the slash."""
        return self.usage.split(" ")[0]


async def run_command(floor: Floor, line: str, *, busy: bool) -> None:
    """Run the command of the line; prints a hint if it is unknown or must wait for the end of the turn."""
    word, _, rest = line[1:].strip().partition(" ")
    command = COMMANDS.get(word.lower())
    if command is None:
        near = difflib.get_close_matches(word.lower(), COMMANDS, n=1, cutoff=0.5)
        hint = f"; did you mean /{near[0]}?" if near else "; /help lists them"
        floor.page.say(f"unknown command /{one_line(word, 40)}{hint} (// sends a message that begins with /)")
    elif busy and not command.any_time:
        floor.page.say(f"/{command.name} must wait until the turn has ended; /stop ends it")
    else:
        await command.run(floor, rest.strip())


def completed(text: str) -> str:
    """Complete the beginning of a command if exactly one command matches; otherwise return the text unchanged."""
    if not text.startswith("/") or " " in text or text.startswith("//"):
        return text
    fitting = [name for name in COMMANDS if name.startswith(text[1:].lower())]
    return f"/{fitting[0]} " if len(fitting) == 1 else text


async def _help(floor: Floor, _: str) -> None:
    rows = [(f"/{command.usage}", command.help) for command in COMMANDS.values()] + [*_KEYS]
    width = max(len(name) for name, _ in rows) + 2
    for name, meaning in rows:
        floor.page.row(name, meaning, width, "help")


async def _attach(floor: Floor, words: str) -> None:
    if not words:
        names = ", ".join(file.name for file in floor.attached)
        floor.page.say(f"attached to the next message: {names}" if names else "name a text file: /attach PATH")
        return
    file = read_file(words)
    floor.attached.append(file)
    floor.page.say(f"{one_line(file.name)} ({size(len(file.text.encode()))}) will be sent with the next message")


async def _sources(floor: Floor, _: str) -> None:
    sids = sorted(floor.session.views.sources.pool.rows)
    if not sids:
        floor.page.say("there are no sources yet")
    floor.report.sources(sids[-MAX_SOURCES:])


async def _plan(floor: Floor, _: str) -> None:
    plans = announced(floor.session.views.plans)
    if not plans:
        floor.page.say("there is no open plan")
    for plan in plans:
        for line in plan_lines(plan):
            floor.page.say(line, "plain", f"plan {plan.plan_id}")


async def _timeline(floor: Floor, _: str) -> None:
    turn = floor.session.views.turns.turns.get(floor.session.views.turns.newest)
    seqs = list(turn.seqs()) if turn else []
    if not seqs:
        floor.page.say("the timeline has no turn yet")
    for entry in await floor.session.entries(seqs[-MAX_BLOCKS:]):
        said = gist(entry.block)
        floor.page.line(f"{entry.seq:>5} {entry.block.type_name:<22} {said}")


async def _cost(floor: Floor, _: str) -> None:
    spend = floor.session.views.spend
    floor.page.say(f"this conversation: {cost_line(spend.total)}", "plain", "cost")
    if len(spend.by_model) > 1:
        for model, one in spend.by_model.items():
            floor.page.say(f"  {one_line(model, 60)}: {cost_line(one)}", "quiet", "cost")


async def _thinking(floor: Floor, _: str) -> None:
    floor.page.say(floor.report.thinking or "the model has shown no thinking yet", "quiet", "thinking")


async def _model(floor: Floor, name: str) -> None:
    if not name:
        floor.page.say(f"the model is {floor.model}")
        return
    await floor.open(floor.session.conversation, name)
    floor.page.say(f"the model is {floor.model} from the next turn on")


async def _new(floor: Floor, _: str) -> None:
    await floor.open(None)


async def _resume(floor: Floor, words: str) -> None:
    found = await floor.rooms.find(words, MAX_CHOICES + 1)
    found = [info for info in found if info.id != floor.session.conversation][:MAX_CHOICES]
    floor.choices = [info.id for info in found]
    if not found:
        floor.page.say(
            f"no other conversation contains {one_line(words, 60)!r}" if words else "there is no other conversation"
        )
        return
    for n, info in enumerate(found, 1):
        when = info.last_ts[:16].replace("T", " ")
        floor.page.line(f"{n:>3}. {when}  {info.title or '(no title)'}", "plain", "choices")
    floor.page.say("type a number to resume that conversation", "quiet", "choices")


async def _fork(floor: Floor, turn: str) -> None:
    before = floor.session.conversation
    copy = await floor.rooms.fork(before, turn or None)
    await floor.open(copy.conversation)
    floor.page.say(f"forked from {before} after {counted(copy.turns, 'turn')}; the original stays unchanged")


async def _approve(floor: Floor, _: str) -> None:
    floor.deciding = floor.session.views.progress.running
    if not floor.deciding:
        floor.page.say("no call waits for a decision")


async def _stop(floor: Floor, _: str) -> None:
    if await floor.turns.inbox.steer() is None:
        floor.page.say("no turn is running")
    else:
        floor.deciding = True


async def _quit(floor: Floor, _: str) -> None:
    floor.leaving = True


COMMANDS: Final = {
    command.name: command
    for command in (
        Command("attach PATH", "send a text file with the next message", _attach),
        Command("sources", "list the sources of this conversation", _sources),
        Command("plan", "show the open plans", _plan),
        Command("timeline", "list the blocks of the last turn", _timeline),
        Command("thinking", "show the model's last thinking in full", _thinking),
        Command("cost", "show tokens and cost so far", _cost),
        Command("model [NAME]", "show the model, or change it from the next turn on", _model, any_time=False),
        Command("resume [WORDS]", "list earlier conversations that contain the words", _resume, any_time=False),
        Command("fork [TURN]", "continue in a copy: of all turns, or up to turn number TURN", _fork, any_time=False),
        Command("approve", "decide on the call that the turn waits for", _approve, any_time=False),
        Command("stop", "end the turn that runs or waits", _stop),
        Command("new", "start a new conversation", _new, any_time=False),
        Command("help", "show this list", _help),
        Command("quit", "quit; a running turn resumes when its conversation is opened again", _quit),
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
