"""Runs the interactive chat: reads input, runs turns and accepts input while a turn runs."""

import asyncio
import os
from collections.abc import Coroutine, Mapping
from typing import Final

from timeloom.cli.chat.conversations import LocalConversations
from timeloom.cli.chat.display.format import format_spend
from timeloom.cli.chat.display.render import TerminalRenderer, can_show_links
from timeloom.cli.chat.display.transcript import Transcript
from timeloom.cli.chat.display.turn_display import TurnDisplay
from timeloom.cli.chat.terminal.approval_prompt import UserQuitError, ask_for_decision
from timeloom.cli.chat.terminal.approvals import ApprovalDecision, find_pending_approval
from timeloom.cli.chat.terminal.form_prompt import ask_form
from timeloom.cli.chat.terminal.screen import KeyPress, LineInput, Screen, ScreenEvent
from timeloom.cli.chat.terminal.slash_commands import MAX_CHOICES, complete_command, run_command
from timeloom.cli.chat.terminal.state import ChatState
from timeloom.cli.sanitize import one_line
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.paths import AttachmentPath
from timeloom.data_folder import HISTORY_FILE
from timeloom.platform.tasks import cancel_and_wait
from timeloom.providers.registry import model_notice
from timeloom.runtime.turn.attachments import to_attachment_blocks
from timeloom.runtime.turn.form_answers import make_form_event, read_form
from timeloom.runtime.turn.loop import TurnOutcome

_STEER_PROMPT: Final = "new instructions (empty stops)> "


async def run_chat(
    conversations: LocalConversations,
    conversation: ConversationId | None,
    *,
    environ: Mapping[str, str] = os.environ,
    screen: Screen | None = None,
) -> int:
    """Run conversations on the terminal until the user quits, and return the exit code."""
    settings = conversations.settings
    screen = screen or Screen(settings.data_dir / HISTORY_FILE, complete=complete_command)
    renderer = TerminalRenderer(lambda: screen.columns, colour="NO_COLOR" not in environ, links=can_show_links(environ))
    transcript = Transcript(screen, renderer)
    display = TurnDisplay(transcript, asyncio.get_running_loop().time)
    screen.live = display.live_lines
    turns = await conversations.open(conversation, settings.model, display)
    state = ChatState(
        conversations=conversations,
        screen=screen,
        transcript=transcript,
        display=display,
        turns=turns,
        model=settings.model,
    )
    async with screen.running():
        await _ChatLoop(state).run(resumed=conversation is not None)
    return 0


class _ChatLoop:
    def __init__(self, state: ChatState) -> None:
        self._state = state
        self._screen, self._page, self._report = state.screen, state.transcript, state.display
        self._queued_input: list[str] = []
        self._question_count = 0

    async def run(self, *, resumed: bool) -> None:
        self._state.show_conversation()
        if model_warning := model_notice(self._state.model):
            self._page.print_message(model_warning, "plain", "notice")
        if resumed:
            await self._state.show_last_exchange()
        else:
            self._page.print_message(f"model {self._state.model}; /help lists commands and keys, Ctrl-D quits")
        try:
            await self._resume_open_turn()
            while True:
                await self._handle_input(await self._next_input())
        except UserQuitError:
            pass

    async def _resume_open_turn(self) -> None:
        turns = self._state.turns
        if turns.session.views.progress.running:
            if await find_pending_approval(turns.session) is None:
                self._page.print_message("resuming the interrupted turn")
            await self._run_turn(turns.resume())
        elif turns.session.views.compactions.pending:
            await self._run_until_pause(turns.resume())
        else:
            await turns.titles.start()

    async def _next_input(self) -> str:
        """Return the next non-empty input, first the input that was queued while a turn ended."""
        if self._queued_input:
            return self._queued_input.pop(0)
        warned = False
        while True:
            match await self._screen.events.get():
                case LineInput(text=text) if text.strip():
                    return text
                case KeyPress(key="leave"):
                    raise UserQuitError
                case KeyPress(key="interrupt"):
                    if self._screen.take_input():
                        continue
                    if warned:
                        raise UserQuitError
                    self._page.print_message("press Ctrl-C again or Ctrl-D to quit")
                    warned = True
                case _:
                    pass

    async def _handle_input(self, text: str) -> None:
        """Handle input while no turn runs: a command, the number of a choice or suggestion, or a message."""
        number = _parse_choice(text)
        choices, self._state.choices = self._state.choices, []
        if text.startswith("/") and not text.startswith("//"):
            await self._run_command(text, busy=False)
        elif 1 <= number <= len(choices):
            await self._open_choice(choices[number - 1])
        else:
            offers = self._report.suggestions
            text = offers[number - 1] if 1 <= number <= len(offers) else text
            await self._send_message(text[1:] if text.startswith("//") else text)

    async def _run_command(self, text: str, *, busy: bool) -> None:
        self._page.print_user_message(one_line(text, 400))
        conversation = self._state.session.conversation
        try:
            await run_command(self._state, text, busy=busy)
        except CodedError as error:
            self._page.print_message(f"{error}", "bad")
        if self._state.is_quitting:
            raise UserQuitError
        answering, self._state.needs_answer = self._state.needs_answer, False
        if answering and not busy:
            await self._ask_form()
        deciding, self._state.needs_decision = self._state.needs_decision, False
        if not busy and (deciding or self._state.session.conversation != conversation):
            await self._resume_open_turn()

    async def _open_choice(self, conversation: ConversationId) -> None:
        try:
            await self._state.open_conversation(conversation)
        except CodedError as error:
            self._page.print_message(f"{error}", "bad")
            return
        await self._state.show_last_exchange()
        await self._resume_open_turn()

    async def _send_message(self, text: str) -> None:
        turns = self._state.turns
        if turns.session.views.progress.running:
            # The turn waits for a decision that the user postponed: a message steers it instead.
            await turns.inbox.steer(text)
            await self._run_turn(turns.resume())
            return
        files, self._state.attachments = self._state.attachments, []
        self._page.print_user_message(text)
        for file in files:
            self._page.print_message(f"with {one_line(file.name)}", "quiet", "you")
        turn = turns.session.new_turn_id()
        await self._run_turn(
            turns.run(text, to_attachment_blocks(files, lambda name: AttachmentPath(turn, name)), turn)
        )

    async def _run_turn(self, work: Coroutine[object, object, TurnOutcome]) -> None:
        """Run a turn until it ends or the user postpones a decision, asking for decisions in between."""
        while await self._run_until_pause(work) == "waiting":
            if not await self._ask_decision():
                return
            work = self._state.turns.resume()
        views = self._state.session.views
        if spend := views.spend.by_turn.get(views.turns.newest):
            self._page.print_message(format_spend(spend), "quiet", "cost")
        if self._has_new_form():
            await self._ask_form()

    def _has_new_form(self) -> bool:
        """Whether the newest turn shows a form that is not answered, and the user has entered nothing else."""
        views = self._state.session.views
        waiting, turn = views.forms.open_forms(), views.turns.turns.get(views.turns.newest)
        if not waiting or turn is None or turn.ended is None or self._queued_input:
            return False
        return views.forms.forms[waiting[-1]].seq >= turn.spans[0][0]

    async def _ask_form(self) -> None:
        """Ask for the values of the newest open form, and run the turn that they begin."""
        turns = self._state.turns
        call = turns.session.views.forms.open_forms()[-1]
        answer = await ask_form(self._screen, self._page, await read_form(turns.session, call))
        if answer is None:
            self._page.print_message("not answered; /form asks again")
            return
        await turns.open_turn(await make_form_event(turns.session, call, answer, self._state.conversations.user))
        await self._run_turn(turns.resume())

    async def _run_until_pause(self, work: Coroutine[object, object, TurnOutcome]) -> TurnOutcome:
        running = asyncio.create_task(work)
        self._report.begin()
        self._screen.spin(on=True)
        turn = _RunningTurn(self, running)
        try:
            return await turn.wait_for_pause()
        finally:
            self._screen.spin(on=False)
            self._screen.set_prompt()
            self._report.end()

    async def handle_input_during_turn(self, text: str) -> None:
        """Handle input while a turn runs: a command, or a follow-up message to the turn."""
        if text.startswith("/") and not text.startswith("//"):
            if self._state.session.views.progress.running:
                await self._run_command(text, busy=True)
            else:
                # The turn has ended but its task has not: run the command afterwards.
                self._queued_input.append(text)
        elif text.strip():
            text = text[1:] if text.startswith("//") else text
            if await self._state.turns.inbox.follow_up(text) is None:
                self._queued_input.append(text)

    async def steer(self, text: str) -> None:
        """Send new instructions to the running turn; empty text stops it.

        While a compaction runs without a turn, they interrupt it and become the next message.
        """
        if await self._state.turns.inbox.steer(text.strip()) is None and text.strip():
            self._queued_input.append(text)

    @property
    def screen(self) -> Screen:
        """The screen that the chat runs on."""
        return self._screen

    async def _ask_decision(self) -> bool:
        """Ask for the decision that the turn waits for; returns whether the turn can continue."""
        question = await find_pending_approval(self._state.session)
        if question is None:
            self._page.print_message("the turn waits for a decision that this chat cannot show; /stop ends it")
            return False
        # Input that was entered before the question appeared is not an answer to it.
        for event in self._screen.drain_events():
            if isinstance(event, LineInput):
                await self.handle_input_during_turn(event.text)
        draft = self._screen.take_input()
        self._question_count += 1
        try:
            decision = await ask_for_decision(self._screen, self._page, question)
        finally:
            self._screen.prepend_input(draft)
        match decision:
            case None:
                self._page.print_message("not decided; the turn waits until you decide, now or later")
                self._page.print_message("/approve asks again, a message gives new instructions, /stop ends the turn")
                return False
            case str() if decision.startswith("/") and not decision.startswith("//"):
                return await self._run_command_and_ask_again(decision)
            case str():
                await self._state.turns.inbox.steer(decision[1:] if decision.startswith("//") else decision)
            case ApprovalDecision(approved=approved, text=why):
                await self._state.turns.inbox.decide(question.call_id, approved, self._state.conversations.user, why)
        return True

    async def _run_command_and_ask_again(self, text: str) -> bool:
        """Run a command entered instead of a decision, and ask again if the same turn still waits."""
        turns, asked = self._state.turns, self._question_count
        await self._run_command(text, busy=False)
        same = self._state.turns is turns and turns.session.views.progress.running
        return same and self._question_count == asked and await self._ask_decision()


class _RunningTurn:
    """A running turn together with the input that the user enters meanwhile."""

    def __init__(self, chat: _ChatLoop, running: asyncio.Task[TurnOutcome]) -> None:
        self._chat = chat
        self._running = running
        self._steering = False

    async def wait_for_pause(self) -> TurnOutcome:
        """Handle input until the turn pauses and return the reason; quitting cancels the turn, which stays open."""
        next_event = asyncio.create_task(self._chat.screen.events.get())
        try:
            while not self._running.done():
                await asyncio.wait({self._running, next_event}, return_when=asyncio.FIRST_COMPLETED)
                if next_event.done():
                    await self._handle_event(next_event.result())
                    next_event = asyncio.create_task(self._chat.screen.events.get())
            return self._running.result()
        finally:
            await cancel_and_wait(next_event)
            await cancel_and_wait(self._running)

    async def _handle_event(self, event: ScreenEvent) -> None:
        match event:
            case KeyPress(key="leave"):
                raise UserQuitError
            case KeyPress(key="interrupt") if self._steering:
                raise UserQuitError
            case KeyPress(key="interrupt"):
                self._steering = True
                self._chat.screen.set_prompt(_STEER_PROMPT, escape_goes_back=True)
            case KeyPress():
                self._end_steering()
            case LineInput(text=text) if self._steering:
                self._end_steering()
                await self._chat.steer(text)
            case LineInput(text=text):
                await self._chat.handle_input_during_turn(text)

    def _end_steering(self) -> None:
        self._steering = False
        self._chat.screen.set_prompt()


def _parse_choice(text: str) -> int:
    """Return the text as a number; 0 if it is not one or has more digits than any listed number."""
    digits = text.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= len(f"{MAX_CHOICES}") else 0
