"""Whole turns with the local model and its real weights, as a new user runs them."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.harness import local_model
from tests.harness.turn import HEADER, blocks_of
from timeloom.app import AgentSettings, build_turn_runner, open_session, open_tools
from timeloom.config.settings import Settings
from timeloom.core.blocks import (
    AnyBlock,
    ApprovalRequested,
    Attachment,
    AttachmentMeta,
    Completion,
    Digest,
    Notice,
    ToolCall,
)
from timeloom.core.paths import AttachmentPath
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.tools.define import tool
from timeloom_local.provider import EXAMPLES

FERRY = "The ferry leaves at half past nine.\nA ticket costs twelve euros.\nDogs travel for free.\n"


class Talk:
    """A conversation with the local model."""

    def __init__(self, turns: TurnRunner, sent: list[str]) -> None:
        self.turns = turns
        self.sent = sent

    async def say(self, message: str) -> list[AnyBlock]:
        """The blocks of the turn that the message begins."""
        before = self.turns.session.views.tail
        assert await self.turns.run(message) == "completed"
        return (await blocks_of(self.turns))[before:]

    async def attach(self, message: str, text: str) -> list[AnyBlock]:
        turn, before = self.turns.session.new_turn_id(), self.turns.session.views.tail
        path = str(AttachmentPath(turn, "ferry.txt"))
        digest = Digest(artifact_path=path, physical_path=f"{turn}/attachments/ferry.txt", mime="text/plain")
        meta = AttachmentMeta(digest=digest, summary="three lines")
        attached = Attachment(artifact_path=path, mime="text/plain", text=text)
        assert await self.turns.run(message, (meta, attached), turn) == "completed"
        return (await blocks_of(self.turns))[before:]


def talk(tmp_path: Path, check: Callable[[Talk], Awaitable[None]]) -> None:
    async def body() -> None:
        sent: list[str] = []

        async def send(address: str) -> str:
            """Sends a postcard to somebody.

            address: who gets it.
            """
            sent.append(address)
            return "sent"

        postcards = tool("post.send", effect="irreversible", examples=("Send a postcard to TEXT",))(send)
        session = await open_session(MemoryStore(), None, HEADER)
        settings = AgentSettings(data_dir=tmp_path)
        async with open_tools(Settings()) as registry:
            tools = registry.with_tools([postcards])
            turns = build_turn_runner(session, local_model.model(), settings, lambda _: None, tools)
            await check(Talk(turns, sent))
            await session.close()

    asyncio.run(body())


def called(blocks: list[AnyBlock]) -> list[str]:
    return [block.tool_id for block in blocks if isinstance(block, ToolCall)]


def answer(blocks: list[AnyBlock]) -> str:
    return next(str(block.text) for block in reversed(blocks) if isinstance(block, Completion))


def newest(data_dir: Path, name: str) -> str:
    """Return the file's content in the newest turn that has it."""
    return max(data_dir.glob(f"workspaces/*/turn_*/files/{name}")).read_text()


def test_a_file_is_written_read_and_patched(tmp_path: Path) -> None:
    async def check(talk: Talk) -> None:
        assert called(await talk.say('Save "tea and milk" to shop.txt')) == ["react.write"]
        shown = await talk.say("Show me shop.txt")
        assert called(shown) == ["react.read"]
        assert "tea and milk" in answer(shown)
        changed = await talk.say('Replace "milk" with "honey" in shop.txt')
        assert called(changed)[-1] == "react.patch"
        assert newest(tmp_path, "shop.txt") == "tea and honey"

    talk(tmp_path, check)


def test_several_wishes_are_planned_and_the_plan_is_followed(tmp_path: Path) -> None:
    async def check(talk: Talk) -> None:
        await talk.say("Open a plan: wake up, get up")
        steps = (
            'Write "one" to a.txt, then add the line "two" to a.txt, then add the line "six" to a.txt, then show a.txt'
        )
        blocks = await talk.say(steps)
        changes = ["react.write", "react.patch", "react.read", "react.patch"]
        assert called(blocks) == ["react.plan", *changes, "react.read"]
        assert "one\ntwo\nsix" in answer(blocks)
        assert not [block for block in blocks if isinstance(block, Notice)]
        *_, plan = talk.turns.session.views.plans.lineages.values()
        assert plan.snapshot.statuses == ("done",) * 4

    talk(tmp_path, check)


def test_a_question_about_an_attached_text_is_answered_with_its_citation(tmp_path: Path) -> None:
    async def check(talk: Talk) -> None:
        blocks = await talk.attach("How much is a ticket?", FERRY)
        assert called(blocks) == ["react.read"]
        assert "> A ticket costs twelve euros [[S:1]]" in answer(blocks)
        again = await talk.say("When does the ferry leave?")
        assert "half past nine [[S:1]]" in answer(again)

    talk(tmp_path, check)


def test_what_cannot_be_undone_waits_for_a_person(tmp_path: Path) -> None:
    async def check(talk: Talk) -> None:
        turns = talk.turns
        for approved, said in ((True, "sent"), (False, "refused")):
            assert await turns.run('Send a postcard to "Aunt May"') == "waiting"
            asked = [block for block in await blocks_of(turns) if isinstance(block, ApprovalRequested)]
            before = list(talk.sent)
            await turns.inbox.decide(asked[-1].tool_call_id, approved, "u")
            assert await turns.resume() == "completed"
            assert talk.sent == [*before, *(["Aunt May"] if approved else [])]
            assert said in answer(await blocks_of(turns))

    talk(tmp_path, check)


def test_who_asks_for_help_is_told_what_to_ask_for_and_no_tool_ids(tmp_path: Path) -> None:
    async def check(talk: Talk) -> None:
        blocks = await talk.say("What can you do?")
        assert called(blocks) == []
        assert "demo model" in answer(blocks)
        assert "make a plan" in answer(blocks)
        assert "- Sends a postcard to somebody." in answer(blocks)
        assert not re.search(r"\b(?:react|exec_tools|post)\.[a-z]", answer(blocks))

    talk(tmp_path, check)


@pytest.mark.parametrize(
    ("example", "tools"),
    [
        (EXAMPLES[0], ["react.plan"]),
        (EXAMPLES[1], ["react.plan", "react.write", "react.patch", "react.read"]),
        (EXAMPLES[2], ["exec_tools.execute_code_python"]),
    ],
)
def test_the_examples_that_people_are_offered_succeed(tmp_path: Path, example: str, tools: list[str]) -> None:
    async def check(talk: Talk) -> None:
        blocks = await talk.say(example)
        assert called(blocks) == tools
        assert len(answer(blocks)) > 40
        assert "could not" not in answer(blocks)

    talk(tmp_path, check)
