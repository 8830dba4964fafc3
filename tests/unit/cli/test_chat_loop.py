"""A talk on a terminal that waits for a person: the question, the pages, the decision."""

import asyncio
import io
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pyte
import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from tests.harness.replies import answers, calls
from timeloom.agent.turn_builder import TurnRunnerBuilder
from timeloom.app import AgentSettings, ModelPool, SideModels, build_turn_runner, open_session
from timeloom.cli.chat.conversations import ChatListener, LocalConversations
from timeloom.cli.chat.terminal.chat_loop import run_chat
from timeloom.cli.chat.terminal.screen import Screen
from timeloom.config.settings import Settings
from timeloom.core.blocks import ConversationStarted, ExternalEvent
from timeloom.core.ids import ConversationId
from timeloom.providers.script_file import Step
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.testing import ScriptedModel
from timeloom.tools.define import tool
from timeloom.tools.react.form import form
from timeloom.tools.registry import ToolRegistry

pytestmark = pytest.mark.anyio
HEADER = ConversationStarted(tenant="t", project="p", user="ann")
ROWS, COLUMNS = 24, 80


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class PostRoom(LocalConversations):
    """A room whose agent can send letters, which cannot be undone."""

    sent: list[str]
    script: list[str | Step]
    compacting: asyncio.Event
    """Set when a summary is being written."""

    async def open(self, conversation: ConversationId | None, model_name: str, listener: ChatListener) -> TurnRunner:
        session = await open_session(self.store, conversation, HEADER)
        session.listen(listener.on_block)
        self.compacting = asyncio.Event()
        session.listen(
            lambda entry: self.compacting.set() if getattr(entry.block, "purpose", "") == "compaction" else None
        )

        @tool("mail.send")
        async def send(to: str, text: str = "") -> str:
            """Sends a letter.

            to: who gets it
            text: what it says
            """
            self.sent.append(f"{to}: {text}")
            return f"sent to {to}"

        model = ScriptedModel(self.script)
        side = SideModels(summary=model if any(isinstance(step, Step) for step in self.script) else None)
        settings = AgentSettings.from_settings(self.settings)
        return build_turn_runner(session, model, settings, listener.on_delta, ToolRegistry([send, form]), side)


async def open_rooms(settings: Settings) -> PostRoom:
    store = await MemoryStore.open()
    builder = TurnRunnerBuilder(store, AgentSettings.from_settings(settings), ToolRegistry())
    return PostRoom(store, ModelPool(settings), settings, HEADER, builder)


class Terminal:
    """The user's input, and the screen's output."""

    def __init__(self, keys: PipeInput) -> None:
        self._keys = keys
        self.paper = io.StringIO()
        output = Vt100_Output(self.paper, lambda: Size(rows=ROWS, columns=COLUMNS), term="xterm")
        self.screen = Screen(input=keys, output=output)

    @property
    def text(self) -> str:
        shown = pyte.HistoryScreen(COLUMNS, ROWS, history=2000)
        pyte.Stream(shown).feed(self.paper.getvalue())
        above = ["".join(line[x].data for x in range(COLUMNS)) for line in shown.history.top]
        return "\n".join(line.rstrip() for line in (*above, *shown.display))

    async def wait(self, words: str) -> str:
        async with asyncio.timeout(60):
            while words not in self.text:  # noqa: ASYNC110 - the screen tells nobody that it has changed
                await asyncio.sleep(0.01)
        return self.text

    def enter(self, text: str) -> None:
        self._keys.send_text(text + "\r")

    def press(self, keys: str) -> None:
        self._keys.send_text(keys)


@asynccontextmanager
async def posting(
    tmp_path: Path, params: dict[str, object], typed: str = ""
) -> AsyncGenerator[tuple[Terminal, PostRoom]]:
    """A talk in which the agent wants to send a letter, and the user begins to type right after asking for it."""
    settings = Settings(data_dir=tmp_path, model="script:none")
    rooms = await open_rooms(settings)
    rooms.sent = []
    call = {"action": "call_tool", "tool_call": {"tool_id": "mail.send", "params": params}}
    done = {"action": "complete", "final_answer": "That is that."}
    rooms.script = [
        f"<channel:ReactDecisionOutV2>{json.dumps(one)}</channel:ReactDecisionOutV2>" for one in (call, done)
    ]
    with create_pipe_input() as keys:
        terminal = Terminal(keys)
        talking = asyncio.create_task(run_chat(rooms, None, environ={}, screen=terminal.screen))
        try:
            await terminal.wait("/help")
            terminal.press("send it\r" + typed)
            yield terminal, rooms
            async with asyncio.timeout(60):
                assert await talking == 0
        finally:
            talking.cancel()


async def test_a_call_is_allowed_after_it_was_shown_in_full(tmp_path: Path) -> None:
    async with posting(tmp_path, {"to": "bob \x1b[31m", "text": "hello"}) as (terminal, rooms):
        shown = await terminal.wait("allow? y/n")
        for words in ("May it call mail.send?", "cannot be undone", '"to": "bob \\u001b[31m"', '"text": "hello"'):
            assert words in shown
        assert rooms.sent == []
        terminal.enter("m")
        await terminal.wait("there are no more lines")
        terminal.enter("y just this once")
        shown = await terminal.wait("That is that.")
        assert "allowed by ann: just this once" in shown
        assert "✓ mail.send" in shown
        terminal.press("\x04")
    assert len(rooms.sent) == 1


async def test_a_conversation_is_compacted_on_command_and_the_outcome_is_shown(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, model="script:none")
    rooms = await open_rooms(settings)
    answer = {"action": "complete", "final_answer": "word " * 300 + "end."}
    rooms.script = [f"<channel:ReactDecisionOutV2>{json.dumps(answer)}</channel:ReactDecisionOutV2>"] * 4
    with create_pipe_input() as keys:
        terminal = Terminal(keys)
        talking = asyncio.create_task(run_chat(rooms, None, environ={}, screen=terminal.screen))
        await terminal.wait("/help")
        terminal.enter("/compact")
        await terminal.wait("nothing to compact: the conversation has nothing before the newest 2 rounds")
        for n in range(1, 5):
            terminal.enter(f"ask {n}")
            async with asyncio.timeout(60):
                while terminal.text.count("end.") < n:  # noqa: ASYNC110 - the screen tells nobody that it has changed
                    await asyncio.sleep(0.01)
        terminal.enter("/compact the prices")
        await terminal.wait("compacted 2 turns: ")
        terminal.enter("/compact " + "x" * 2_001)
        await terminal.wait("the focus has at most 2000 characters")
        terminal.enter("/timeline")
        shown = await terminal.wait("keeps 2 rounds: the prices")
        assert "react.compact.end" in shown
        terminal.press("\x04")
        async with asyncio.timeout(60):
            assert await talking == 0


async def test_instructions_during_a_compaction_interrupt_it_and_become_the_next_message(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, model="script:none")
    rooms = await open_rooms(settings)
    answer = {"action": "complete", "final_answer": "word " * 300 + "end."}
    reply = f"<channel:ReactDecisionOutV2>{json.dumps(answer)}</channel:ReactDecisionOutV2>"
    slow = Step(reply="never", chunk=1, delay_ms=60_000, when="compaction")
    rooms.script = [*[reply] * 5, slow]
    with create_pipe_input() as keys:
        terminal = Terminal(keys)
        talking = asyncio.create_task(run_chat(rooms, None, environ={}, screen=terminal.screen))
        await terminal.wait("/help")
        for n in range(1, 5):
            terminal.enter(f"ask {n}")
            async with asyncio.timeout(60):
                while terminal.text.count("end.") < n:  # noqa: ASYNC110 - the screen tells nobody that it has changed
                    await asyncio.sleep(0.01)
        terminal.enter("/compact")
        async with asyncio.timeout(60):
            await rooms.compacting.wait()
        terminal.press("\x03")
        await terminal.wait("new instructions")
        terminal.enter("what about the buses?")
        await terminal.wait("compacted 2 turns: ")
        async with asyncio.timeout(60):
            while terminal.text.count("end.") < 5:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        assert "what about the buses?" in terminal.text
        terminal.press("\x04")
        async with asyncio.timeout(60):
            assert await talking == 0


async def test_a_compaction_during_a_question_waits_for_the_next_round(tmp_path: Path) -> None:
    async with posting(tmp_path, {"to": "bob"}) as (terminal, _):
        await terminal.wait("allow? y/n")
        terminal.enter("/compact")
        await terminal.wait("the conversation is compacted before the turn's next round")
        terminal.enter("y")
        shown = await terminal.wait("That is that.")
        assert shown.index("nothing to compact") < shown.index("That is that.")
        terminal.press("\x04")


async def test_a_call_is_refused_with_a_word_of_why(tmp_path: Path) -> None:
    async with posting(tmp_path, {"to": "bob"}) as (terminal, rooms):
        await terminal.wait("allow? y/n")
        terminal.enter("no, not to bob")
        assert "refused by ann: not to bob" in await terminal.wait("That is that.")
        terminal.press("\x04")
    assert rooms.sent == []


async def test_commands_work_where_a_decision_is_asked_for(tmp_path: Path) -> None:
    async with posting(tmp_path, {"to": "bob"}) as (terminal, rooms):
        await terminal.wait("allow? y/n")
        terminal.enter("/help")
        shown = await terminal.wait("/attach PATH")
        assert "/stop" in shown
        async with asyncio.timeout(60):
            while terminal.text.count("May it call mail.send?") < 2:  # noqa: ASYNC110 - as in `wait`
                await asyncio.sleep(0.01)
        terminal.enter("/stop")
        await terminal.wait("stopped: the user stopped the turn")
        terminal.enter("/approve")
        await terminal.wait("no call waits for a decision")
        terminal.enter("/quit")
    assert rooms.sent == []


async def test_another_conversation_can_be_begun_where_a_decision_is_asked_for(tmp_path: Path) -> None:
    async with posting(tmp_path, {"to": "bob"}) as (terminal, rooms):
        await terminal.wait("allow? y/n")
        terminal.enter("/new")
        async with asyncio.timeout(60):
            while terminal.text.count("conversation conv_") < 2:  # noqa: ASYNC110 - as in `wait`
                await asyncio.sleep(0.01)
        terminal.enter("/stop")
        await terminal.wait("no turn is running")
        terminal.press("\x04")
    assert rooms.sent == []


async def test_other_words_than_a_decision_change_the_course(tmp_path: Path) -> None:
    async with posting(tmp_path, {"to": "bob"}) as (terminal, rooms):
        await terminal.wait("allow? y/n")
        terminal.enter("rather tell me who bob is")
        shown = await terminal.wait("That is that.")
        assert "> rather tell me who bob is" in shown
        terminal.press("\x04")
    assert rooms.sent == []


async def test_what_is_half_typed_when_the_question_comes_is_no_answer_to_it(tmp_path: Path) -> None:
    async with posting(tmp_path, {"to": "bob"}, typed="yes") as (terminal, rooms):
        await terminal.wait("allow? y/n>")
        terminal.enter("n")
        assert "refused by ann" in await terminal.wait("That is that.")
        assert "> yes" in await terminal.wait("> yes")
        terminal.press("\x7f\x7f\x7f\x04")
    assert rooms.sent == []


async def test_long_parameters_are_shown_page_by_page(tmp_path: Path) -> None:
    params: dict[str, object] = {"to": "bob", **{f"k{n}": n for n in range(100)}}
    async with posting(tmp_path, params) as (terminal, _):
        assert '"k50"' not in await terminal.wait("85 more lines: m")
        for _ in range(5):
            terminal.enter("m")
        shown = await terminal.wait('"k99": 99')
        assert [f'"k{n}": {n}' for n in range(100) if f'"k{n}": {n}' not in shown] == []
        terminal.enter("n")
        await terminal.wait("That is that.")
        terminal.press("\x04")


async def test_a_question_can_be_left_for_another_day(tmp_path: Path) -> None:
    async with posting(tmp_path, {"to": "bob"}) as (terminal, rooms):
        await terminal.wait("allow? y/n")
        terminal.press("\x03")
        await terminal.wait("not decided; the turn waits")
        terminal.press("\x03")
        await terminal.wait("press Ctrl-C again")
        terminal.press("\x03")
    assert rooms.sent == []


FIELDS = [
    {"name": "day", "label": "Which day?", "type": "date", "required": True},
    {"name": "extras", "type": "choices", "options": ["bike", "dog"]},
    {"name": "note"},
]


@asynccontextmanager
async def asking(tmp_path: Path) -> AsyncGenerator[tuple[Terminal, PostRoom]]:
    """A talk in which the agent asks by a form."""
    settings = Settings(data_dir=tmp_path, model="script:none")
    rooms = await open_rooms(settings)
    rooms.script = [
        calls("react.form", title="Your trip", fields=FIELDS),
        answers("Please fill it in."),
        answers("Booked."),
        answers("Later."),
    ]
    with create_pipe_input() as keys:
        terminal = Terminal(keys)
        talking = asyncio.create_task(run_chat(rooms, None, environ={}, screen=terminal.screen))
        try:
            await terminal.wait("/help")
            terminal.enter("book")
            yield terminal, rooms
            terminal.press("\x04")
            async with asyncio.timeout(60):
                assert await talking == 0
        finally:
            talking.cancel()


async def form_event(rooms: PostRoom) -> dict[str, object]:
    (name,) = await rooms.store.conversation_ids()
    (text,) = (entry.block.text for entry in await rooms.store.load(name) if isinstance(entry.block, ExternalEvent))
    return json.loads(str(text))


async def test_a_form_is_filled_in_line_by_line(tmp_path: Path) -> None:
    async with asking(tmp_path) as (terminal, rooms):
        shown = await terminal.wait("day>")
        assert "Which day? (a date such as 2026-11-18; required)" in shown
        terminal.enter("tomorrow")
        await terminal.wait("the field day must be a date such as 2026-11-18")
        terminal.enter("2026-11-18")
        assert "2. dog" in await terminal.wait("extras>")
        terminal.enter("2")
        await terminal.wait("note>")
        terminal.enter("")
        await terminal.wait("Booked.")
    event = await form_event(rooms)
    assert (event["title"], event["values"]) == ("Your trip", {"day": "2026-11-18", "extras": ["dog"]})


async def test_a_form_can_be_answered_later(tmp_path: Path) -> None:
    async with asking(tmp_path) as (terminal, rooms):
        await terminal.wait("day>")
        terminal.press("\x03")
        await terminal.wait("not answered; /form asks again")
        terminal.enter("what else?")
        await terminal.wait("Booked.")
        terminal.enter("/form")
        async with asyncio.timeout(60):
            while terminal.text.count("Which day?") < 2:  # noqa: ASYNC110 - the screen tells nobody that it has changed
                await asyncio.sleep(0.01)
        for line in ("2026-11-18", "", "a window seat"):
            terminal.enter(line)
        await terminal.wait("Later.")
        terminal.enter("/form")
        await terminal.wait("no form waits for an answer")
    assert (await form_event(rooms))["values"] == {"day": "2026-11-18", "note": "a window seat"}
