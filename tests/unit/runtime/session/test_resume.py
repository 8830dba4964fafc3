"""Resuming a session ends the turn of a killed re-run; every other open turn continues."""

from collections.abc import Sequence
from pathlib import Path

from tests.harness.replies import answers
from tests.harness.turn import HEADER, TurnHarness, calls, run, script
from timeloom.app import AgentSettings, build_turn_runner, open_session
from timeloom.core.blocks import (
    ApprovalRequested,
    ResultStatus,
    Titled,
    ToolCall,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.timeline import Draft, Entry
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.runtime.rerun.rerun import RerunSettings, rerun_conversation
from timeloom.runtime.session.resume import RERUN_STOPPED_TEXT
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.runtime.turn.resume_open_turns import OpenTurnEnded, OpenTurnRunner, OpenTurnWaiting, resume_open_turns

LOOK, SEND = calls("t.look"), calls("t.send")
FIRST_ROUND = 4
"""The entry before the first request."""


class Scene(TurnHarness):
    """A conversation of two turns, and the entries that a killed process left of its re-runs."""

    async def record(self) -> ConversationId:
        turns = await self.open()
        for prompt in ("go", "and?"):
            await turns.run(prompt)
        await turns.titles.stop()
        await turns.session.close()
        self.effects.clear()
        # Whoever asked it for a title would leave a call on the timeline.
        self.title_model = script({"reply": "A title", "when": "title", "repeat": True})
        return turns.session.conversation

    async def run_again(self, source: ConversationId, *steps: str, live_tools: bool = False) -> list[Entry]:
        """All that the fork of a re-run has."""

        def opened(session: Session, folder: Path) -> TurnRunner:
            return build_turn_runner(
                session, script(*steps), AgentSettings(data_dir=folder), lambda _: None, self.registry()
            )

        how = RerunSettings(
            store=self.store,
            data_dir=self.setting.data_dir,
            make_turn_runner=opened,
            clock=SystemClock(),
            ids=RandomIds(),
            keep=True,
            live_tools=live_tools,
        )
        found = await rerun_conversation(how, source, FIRST_ROUND)
        assert found.kept
        return await self.store.load(found.kept)

    async def killed_after(self, entries: Sequence[Draft], name: str = "") -> ConversationId:
        """A conversation whose process was killed after these blocks were stored."""
        conversation = ConversationId(name or f"conv_{len(entries)}")
        await self.store.append(conversation, 0, entries)
        return conversation

    @property
    def opening(self) -> OpenTurnRunner:
        async def opened(conversation: ConversationId) -> TurnRunner:
            return await self.open(await open_session(self.store, conversation, HEADER))

        return opened


def test_wherever_a_rerun_was_killed_its_turn_is_over_and_nothing_is_run_or_asked(tmp_path: Path) -> None:
    async def check() -> None:
        scene = Scene(tmp_path, LOOK, answers("One."), answers("Two."))
        entries = await scene.run_again(await scene.record(), LOOK, answers("Other."), answers("Two."))
        lefts = [await scene.killed_after(entries[:seq]) for seq in range(FIRST_ROUND, len(entries))]
        opened = await scene.store.open_turns()
        outcomes = await resume_open_turns(scene.store, scene.opening)
        assert sorted(outcomes, key=lambda one: one.conversation) == [
            OpenTurnEnded(name, "cancelled") for name in opened
        ]
        assert 5 < len(opened) < len(lefts)
        for seq, name in enumerate(lefts, FIRST_ROUND):
            ending = [entry.block for entry in (await scene.store.load(name))[seq:]]
            if name in opened:
                receipts = [block for block in ending if isinstance(block, ResultStatus)]
                codes = [block.error.code for block in receipts if block.error]
                assert codes == ["tool_interrupted"] * isinstance(entries[seq - 1].block, ToolCall)
                assert TurnEnded(reason="cancelled", text=RERUN_STOPPED_TEXT) in ending
            assert all(isinstance(block, ResultStatus | TurnEnded | Titled) for block in ending)
        assert scene.effects == []
        assert await resume_open_turns(scene.store, scene.opening) == []

    run(check)


def test_a_turn_that_somebody_began_on_the_fork_goes_on(tmp_path: Path) -> None:
    async def check() -> None:
        scene = Scene(tmp_path, LOOK, answers("One."), answers("Two."), LOOK, answers("Three."))
        entries = await scene.run_again(await scene.record(), LOOK, answers("Other."), answers("Two."))
        turn, ts = TurnId("turn_3"), entries[-1].ts
        spoken = [Draft(turn, ts, TurnStarted(n=3)), Draft(turn, ts, UserPrompt(text="and now?"))]
        name = await scene.killed_after([*entries, *spoken])
        assert await resume_open_turns(scene.store, scene.opening) == [OpenTurnEnded(name, "completed")]
        assert len(scene.effects) == 1

    run(check)


def test_a_rerun_that_waits_for_a_person_waits_on(tmp_path: Path) -> None:
    async def check() -> None:
        scene = Scene(tmp_path, LOOK, answers("One."), answers("Two."))
        entries = await scene.run_again(await scene.record(), SEND, live_tools=True)
        assert isinstance(entries[-1].block, ApprovalRequested)
        (waiting,) = await resume_open_turns(scene.store, scene.opening)
        assert isinstance(waiting, OpenTurnWaiting)
        async with await open_session(scene.store, waiting.conversation, HEADER) as session:
            turns, question = await scene.open(session), session.views.progress.open_call
            assert question
            await turns.inbox.decide(question.call_id, approved=True, by="ann")
            assert scene.effects == []
        # It was allowed, and then the process was killed: nobody knows what it would have been run with.
        assert await resume_open_turns(scene.store, scene.opening) == [OpenTurnEnded(waiting.conversation, "cancelled")]
        assert scene.effects == []

    run(check)


def test_a_fork_that_nobody_speaks_of_gets_a_title_without_a_model(tmp_path: Path) -> None:
    async def check() -> None:
        scene = Scene(tmp_path, LOOK, answers("One."), answers("Two."))
        entries = await scene.run_again(await scene.record(), LOOK, answers("Other."), answers("Two."))
        silent = [entry for entry in entries[:FIRST_ROUND] if not isinstance(entry.block, UserPrompt)]
        for name, kept, title in (("conv_said", entries[:FIRST_ROUND], "go"), ("conv_silent", silent, "Run again")):
            left = await scene.killed_after(kept, name)
            assert await resume_open_turns(scene.store, scene.opening) == [OpenTurnEnded(left, "cancelled")]
            assert (await scene.store.info(left)).title == title

    run(check)
