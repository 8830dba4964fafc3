"""What conversations share: made once, and stored once where they have one tenant."""

from pathlib import Path

import pytest

from tests.harness.exec import PlainSandbox
from tests.harness.replies import answers
from tests.harness.turn import HEADER, TurnHarness, calls, run
from timeloom.app import SharedParts, build_shared_parts, build_turn_runner, open_session
from timeloom.core.blocks import AnyBlock, ModelCalled, Titled, TurnEnded
from timeloom.core.payload import BlobRef, Text
from timeloom.core.timeline import Entry
from timeloom.ports.store import Store, StoreError
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.sqlite import SqliteStore
from timeloom.tools.exec.tool import ExecTool
from timeloom.tools.react.toolset import react_tools
from timeloom.tools.registry import ToolRegistry


async def opened(stage: TurnHarness, store: Store, shared: SharedParts) -> TurnRunner:
    session = await open_session(store, None, HEADER)
    return build_turn_runner(session, stage.model, stage.setting, stage.deltas.append, shared)


async def system_of(turns: TurnRunner) -> Text:
    """The system text of a turn as it is stored."""
    await turns.run("go")
    session = turns.session
    entries = await session.entries(range(1, session.views.tail + 1))
    return next(entry.block.system for entry in entries if isinstance(entry.block, ModelCalled))


def test_a_system_text_is_stored_once_for_all_conversations_and_again_when_they_are_gone(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("One."), answers("Two."), answers("Three."))
        shared = build_shared_parts(stage.model, stage.setting, stage.registry())
        async with await SqliteStore.open(tmp_path) as store:
            first, second = await opened(stage, store, shared), await opened(stage, store, shared)
            reference = await system_of(first)
            assert isinstance(reference, BlobRef)
            assert await system_of(second) == reference
            for turns in (first, second):
                await turns.session.close()
                await store.delete(turns.session.conversation)
            third = await opened(stage, store, shared)
            assert await system_of(third) == reference
            assert await third.session.text(reference) == shared.systems.get(1).text
            await third.session.close()

    run(check)


def test_a_title_that_nobody_is_asked_for_is_stored_with_the_end_of_the_turn(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path, answers("One.")).open()
        told: list[tuple[AnyBlock, int]] = []

        def hear(entry: Entry) -> None:
            told.append((entry.block, turns.session.views.tail))

        turns.session.listen(hear)
        await turns.run("Which ferry?")
        (ended, at_end), (title, at_title) = told[-2:]
        assert isinstance(ended, TurnEnded)
        assert title == Titled(text="Which ferry?")
        assert at_end == at_title

    run(check)


def test_a_folder_that_cannot_be_made_stops_the_turn_until_it_can(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, calls("react.write", path="files/a.md", content="# A\n"), answers("Written."))
        turns = await stage.open()
        stage.setting.workspaces.write_text("in the way")
        with pytest.raises(StoreError, match="cannot be made"):
            await turns.run("go")
        stage.setting.workspaces.unlink()
        assert await turns.resume() == "completed"
        assert list(stage.setting.workspaces.glob("*/*/files/a.md"))

    run(check)


def test_a_conversation_that_uses_no_tool_has_no_folder(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("One."))
        await (await stage.open()).run("go")
        assert not stage.setting.workspaces.exists()

    run(check)


def test_only_where_programs_run_a_preview_tells_how_a_program_gets_the_text(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path)
        for tools, told in ((react_tools(), False), ((*react_tools(), ExecTool(PlainSandbox())), True)):
            shared = build_shared_parts(stage.model, stage.setting, ToolRegistry(tools))
            turns = await opened(stage, MemoryStore(), shared)
            shown = turns.action_context.show("word\n" * 9_000, "text/plain", "tc:turn_1.c1.result")
            assert ("context_tools.fetch_ctx" in shown.text) == told

    run(check)
