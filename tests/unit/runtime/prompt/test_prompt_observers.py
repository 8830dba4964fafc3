"""Prompt observers: they get every prompt that is sent, and the suite's own one notices changed bytes."""

from pathlib import Path
from threading import Thread

import pytest

from tests.harness.prompt_prefix import PREFIX_CHECK, PromptPrefixCheck
from tests.harness.replies import answers
from tests.harness.turn import HEADER, TurnHarness, calls, run
from timeloom.app import observe_prompts, open_session
from timeloom.core.blocks import Cut, Hidden, Pruned, RangeSummary, ToolCall, TurnStarted, UserPrompt
from timeloom.core.ids import CallId, TurnId
from timeloom.core.render.segments import RenderedSegment
from timeloom.runtime.session.session import Session
from timeloom.stores.in_memory.store import MemoryStore

TURN = TurnId("turn_1")


class RecordingObserver:
    """Keeps the texts of the prompts that it gets."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, session: Session, segments: tuple[RenderedSegment, ...]) -> None:
        self.texts.append("".join(segment.text for segment in segments))


async def run_turn(folder: Path, prompt: str) -> None:
    turns = await TurnHarness(folder, calls("t.look"), answers("yes")).open()
    assert await turns.run(prompt) == "completed"


def test_an_observer_gets_the_prompts_of_all_runners_that_are_built_meanwhile(tmp_path: Path) -> None:
    async def check() -> None:
        observer = RecordingObserver()
        with observe_prompts(observer):
            await run_turn(tmp_path, "Which ferry?")
        await run_turn(tmp_path, "Which train?")
        assert ["Which ferry?" in text for text in observer.texts] == [True, True]
        assert observer.texts[1].startswith(observer.texts[0])

    run(check)


def test_an_observer_gets_prompts_of_other_threads(tmp_path: Path) -> None:
    observer = RecordingObserver()
    with observe_prompts(observer):
        thread = Thread(target=lambda: run(lambda: run_turn(tmp_path, "Which ferry?")))
        thread.start()
        thread.join()
    assert len(observer.texts) == 2


async def session_with(prompt: str) -> Session:
    session = await open_session(MemoryStore(), None, HEADER)
    await session.append([TurnStarted(n=1), UserPrompt(text=prompt)], TURN)
    return session


def test_the_prefix_check_fails_for_a_prompt_that_changes_sent_bytes() -> None:
    async def check() -> None:
        prefix_check, session = PromptPrefixCheck(), await session_with("go")
        prefix_check(session, (RenderedSegment("one"),))
        prefix_check(session, (RenderedSegment("one"), RenderedSegment("two")))
        with pytest.raises(AssertionError, match="changed what was sent before"):
            prefix_check(session, (RenderedSegment("one"), RenderedSegment("2")))
        assert len(prefix_check.failures) == 1
        prefix_check.reset()
        assert prefix_check.failures == []
        prefix_check(session, (RenderedSegment("another"),))

    run(check)


def test_the_prefix_check_allows_a_change_after_entries_were_hidden() -> None:
    async def check() -> None:
        prefix_check, session = PromptPrefixCheck(), await session_with("go")
        prefix_check(session, (RenderedSegment("one"),))
        await session.append([Hidden(target="ar:turn_1.user.prompt", replacement="gone")], TURN)
        prefix_check(session, (RenderedSegment("two"),))
        assert prefix_check.failures == []

    run(check)


def test_the_prefix_check_allows_a_summary_that_replaces_only_stubs() -> None:
    async def check() -> None:
        prefix_check, session = PromptPrefixCheck(), await session_with("go")
        await session.append([Pruned(cuts=(Cut(2, 3, "[PRUNED TURN 1]"),))], TURN)
        prefix_check(session, (RenderedSegment("one"),))
        await session.append([RangeSummary(covered_turn_ids=(), text="sum", first_seq=2, last_seq=3)], TURN)
        prefix_check(session, (RenderedSegment("two"),))
        assert prefix_check.failures == []

    run(check)


def test_the_prefix_check_fails_if_only_a_nested_call_came() -> None:
    async def check() -> None:
        prefix_check, session = PromptPrefixCheck(), await session_with("go")
        await session.append([ToolCall(tool_id="exec.run", tool_call_id=CallId("c1"))], TURN)
        prefix_check(session, (RenderedSegment("one"),))
        await session.append([ToolCall(tool_id="t.look", tool_call_id=CallId("c2"), by=CallId("c1"))], TURN)
        with pytest.raises(AssertionError, match="changed what was sent before"):
            prefix_check(session, (RenderedSegment("two"),))

    run(check)


def test_the_suite_observes_every_runner(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path, answers("yes")).open()
        await turns.run("Which ferry?")
        assert turns.session.conversation in PREFIX_CHECK.observed

    run(check)
