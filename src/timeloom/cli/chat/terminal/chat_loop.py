"""Runs the interactive chat: reads input, runs turns and accepts input while a turn runs."""

import asyncio
import os
from collections.abc import Coroutine, Mapping
from typing import Final

from timeloom.cli.chat.conversations import Rooms
from timeloom.cli.chat.display.format import cost_line
from timeloom.cli.chat.display.render import Drawing, takes_links
from timeloom.cli.chat.display.transcript import Page
from timeloom.cli.chat.display.turn_display import Report
from timeloom.cli.chat.terminal.approval_prompt import LeftError, ask
from timeloom.cli.chat.terminal.approvals import Decision, open_question
from timeloom.cli.chat.terminal.screen import Event, Pressed, Screen, Typed
from timeloom.cli.chat.terminal.slash_commands import MAX_CHOICES, completed, run_command
from timeloom.cli.chat.terminal.state import Floor
from timeloom.cli.sanitize import one_line
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.paths import AttachmentPath
from timeloom.providers.registry import notice
from timeloom.runtime.erase.side_files import HISTORY
from timeloom.runtime.turn.attachments import attachment_blocks
from timeloom.runtime.turn.loop import Pause

_COURSE: Final = "new instructions (empty stops)> "


async def talk(
    rooms: Rooms,
    conversation: ConversationId | None,
    *,
    environ: Mapping[str, str] = os.environ,
    screen: Screen | None = None,
) -> int:
    """Run conversations on the terminal until the user quits, and return the exit code."""
    settings = rooms.settings
    screen = screen or Screen(settings.data_dir / HISTORY, complete=completed)
    drawing = Drawing(lambda: screen.columns, colour="NO_COLOR" not in environ, links=takes_links(environ))
    page = Page(screen, drawing)
    report = Report(page, asyncio.get_running_loop().time)
    screen.live = report.live
    turns = await rooms.open(conversation, settings.model, report)
    floor = Floor(rooms=rooms, screen=screen, page=page, report=report, turns=turns, model=settings.model)
    async with screen.running():
        await _Talk(floor).hold(resumed=conversation is not None)
    return 0


class _Talk:
    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._screen, self._page, self._report = floor.screen, floor.page, floor.report
        self._next: list[str] = []
        self._questions = 0

    async def hold(self, *, resumed: bool) -> None:
        self._floor.greet()
        if said := notice(self._floor.model):
            self._page.say(said, "plain", "notice")
        if resumed:
            await self._floor.recall()
        else:
            self._page.say(f"model {self._floor.model}; /help lists commands and keys, Ctrl-D quits")
        try:
            await self._go_on()
            while True:
                await self._settled(await self._typed())
        except LeftError:
            pass

    async def _go_on(self) -> None:
        turns = self._floor.turns
        if turns.session.views.progress.running:
            if await open_question(turns.session) is None:
                self._page.say("resuming the interrupted turn")
            await self._work(turns.go_on())
        else:
            await turns.titles.begin()

    async def _typed(self) -> str:
        """Return the next non-empty input, first the input that was queued while a turn ended."""
        if self._next:
            return self._next.pop(0)
        warned = False
        while True:
            match await self._screen.events.get():
                case Typed(text=text) if text.strip():
                    return text
                case Pressed(key="leave"):
                    raise LeftError
                case Pressed(key="interrupt"):
                    if self._screen.take_line():
                        continue
                    if warned:
                        raise LeftError
                    self._page.say("press Ctrl-C again or Ctrl-D to quit")
                    warned = True
                case _:
                    pass

    async def _settled(self, text: str) -> None:
        """Handle input while no turn runs: a command, the number of a choice or suggestion, or a message."""
        number = _number(text)
        choices, self._floor.choices = self._floor.choices, []
        if text.startswith("/") and not text.startswith("//"):
            await self._command(text, busy=False)
        elif 1 <= number <= len(choices):
            await self._choose(choices[number - 1])
        else:
            offers = self._report.offers
            text = offers[number - 1] if 1 <= number <= len(offers) else text
            await self._say(text[1:] if text.startswith("//") else text)

    async def _command(self, text: str, *, busy: bool) -> None:
        self._page.echo(one_line(text, 400))
        conversation = self._floor.session.conversation
        try:
            await run_command(self._floor, text, busy=busy)
        except CodedError as error:
            self._page.say(f"{error}", "bad")
        if self._floor.leaving:
            raise LeftError
        deciding, self._floor.deciding = self._floor.deciding, False
        if not busy and (deciding or self._floor.session.conversation != conversation):
            await self._go_on()

    async def _choose(self, conversation: ConversationId) -> None:
        try:
            await self._floor.open(conversation)
        except CodedError as error:
            self._page.say(f"{error}", "bad")
            return
        await self._floor.recall()
        await self._go_on()

    async def _say(self, text: str) -> None:
        turns = self._floor.turns
        if turns.session.views.progress.running:
            # The turn waits for a decision that the user postponed: a message steers it instead.
            await turns.inbox.steer(text)
            await self._work(turns.go_on())
            return
        files, self._floor.attached = self._floor.attached, []
        self._page.echo(text)
        for file in files:
            self._page.say(f"with {one_line(file.name)}", "quiet", "you")
        turn = turns.session.new_turn_id()
        await self._work(turns.run(text, attachment_blocks(files, lambda name: AttachmentPath(turn, name)), turn))

    async def _work(self, work: Coroutine[object, object, Pause]) -> None:
        """Run a turn until it ends or the user postpones a decision, asking for decisions in between."""
        while await self._run(work) == "waiting":
            if not await self._decide():
                return
            work = self._floor.turns.go_on()
        views = self._floor.session.views
        if spend := views.spend.by_turn.get(views.turns.newest):
            self._page.say(cost_line(spend), "quiet", "cost")

    async def _run(self, work: Coroutine[object, object, Pause]) -> Pause:
        running = asyncio.create_task(work)
        self._report.begin()
        self._screen.spin(on=True)
        listening = _Course(self, running)
        try:
            return await listening.until_done()
        finally:
            self._screen.spin(on=False)
            self._screen.ask()
            self._report.end()

    async def heard(self, text: str) -> None:
        """Handle input while a turn runs: a command, or a follow-up message to the turn."""
        if text.startswith("/") and not text.startswith("//"):
            if self._floor.session.views.progress.running:
                await self._command(text, busy=True)
            else:
                # The turn has ended but its task has not: run the command afterwards.
                self._next.append(text)
        elif text.strip():
            text = text[1:] if text.startswith("//") else text
            if await self._floor.turns.inbox.follow_up(text) is None:
                self._next.append(text)

    async def steer(self, text: str) -> None:
        """Send new instructions to the running turn; empty text stops it."""
        await self._floor.turns.inbox.steer(text.strip())

    @property
    def screen(self) -> Screen:
        """The screen that the chat runs on."""
        return self._screen

    async def _decide(self) -> bool:
        """Ask for the decision that the turn waits for; returns whether the turn can continue."""
        question = await open_question(self._floor.session)
        if question is None:
            self._page.say("the turn waits for a decision that this chat cannot show; /stop ends it")
            return False
        # Input that was entered before the question appeared is not an answer to it.
        for event in self._screen.take_events():
            if isinstance(event, Typed):
                await self.heard(event.text)
        begun = self._screen.take_line()
        self._questions += 1
        try:
            decision = await ask(self._screen, self._page, question)
        finally:
            self._screen.put_line(begun)
        match decision:
            case None:
                self._page.say("not decided; the turn waits until you decide, now or later")
                self._page.say("/approve asks again, a message gives new instructions, /stop ends the turn")
                return False
            case str() if decision.startswith("/") and not decision.startswith("//"):
                return await self._command_instead(decision)
            case str():
                await self._floor.turns.inbox.steer(decision[1:] if decision.startswith("//") else decision)
            case Decision(approved=approved, text=why):
                await self._floor.turns.inbox.decide(question.call_id, approved, self._floor.rooms.user, why)
        return True

    async def _command_instead(self, text: str) -> bool:
        """Run a command entered instead of a decision, and ask again if the same turn still waits."""
        turns, asked = self._floor.turns, self._questions
        await self._command(text, busy=False)
        same = self._floor.turns is turns and turns.session.views.progress.running
        return same and self._questions == asked and await self._decide()


class _Course:
    """A running turn together with the input that the user enters meanwhile."""

    def __init__(self, talk: _Talk, running: asyncio.Task[Pause]) -> None:
        self._talk = talk
        self._running = running
        self._steering = False

    async def until_done(self) -> Pause:
        """Handle input until the turn pauses and return the reason; quitting cancels the turn, which stays open."""
        listening = asyncio.create_task(self._talk.screen.events.get())
        try:
            while not self._running.done():
                await asyncio.wait({self._running, listening}, return_when=asyncio.FIRST_COMPLETED)
                if listening.done():
                    await self._hear(listening.result())
                    listening = asyncio.create_task(self._talk.screen.events.get())
            return self._running.result()
        finally:
            await _given_up(listening)
            await _given_up(self._running)

    async def _hear(self, event: Event) -> None:
        match event:
            case Pressed(key="leave"):
                raise LeftError
            case Pressed(key="interrupt") if self._steering:
                raise LeftError
            case Pressed(key="interrupt"):
                self._steering = True
                self._talk.screen.ask(_COURSE, takes_back=True)
            case Pressed():
                self._end_steering()
            case Typed(text=text) if self._steering:
                self._end_steering()
                await self._talk.steer(text)
            case Typed(text=text):
                await self._talk.heard(text)

    def _end_steering(self) -> None:
        self._steering = False
        self._talk.screen.ask()


def _number(text: str) -> int:
    """Return the text as a number; 0 if it is not one or has more digits than any listed number."""
    digits = text.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= len(f"{MAX_CHOICES}") else 0


async def _given_up(task: asyncio.Task[Pause] | asyncio.Task[Event]) -> None:
    if task.done():
        return
    task.cancel()
    await asyncio.wait({task})
