"""The timeline says which instructions a turn ran with, and gives the assistant's own ones back."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.replies import answers
from tests.harness.turn import HEADER
from timeloom.app import AgentSettings, build_turn_runner, list_instructions, open_session
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.tokens import estimate_tokens
from timeloom.providers.script import ScriptedModel
from timeloom.runtime.prompt.own_instructions import find_own_instructions, label_digest, own_label
from timeloom.runtime.prompt.recorded_instructions import list_parts, load_turn_instructions
from timeloom.runtime.prompt.system_text import SystemSettings, build_system_text
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.tools.react.toolset import react_tools
from timeloom.tools.registry import ToolRegistry

TOOLS = tuple(tool.spec for tool in react_tools())
OUTPUT = '{"type":"object","properties":{"a":{"type":"integer"}}}'
RHYMES = "Answer in rhymes.\n\n# Style\n\nShort.\n\n# Instructions of this assistant\n\nNot these."


@given(
    own=st.text().filter(str.strip),
    edition=st.sampled_from((1, 2)),
    output=st.sampled_from(("", OUTPUT)),
    native=st.booleans(),
)
def test_own_instructions_are_found_again_in_every_system_text(
    own: str, edition: int, output: str, native: bool
) -> None:
    settings = SystemSettings(
        edition=edition, output=output, instructions=own, protocol="native" if native else "channels"
    )
    text = build_system_text(TOOLS, settings)
    digest = label_digest(text.sections.split(" "))
    assert find_own_instructions(text.text, digest) == own.strip()
    assert find_own_instructions(text.text, "0" * 16) == ""


def test_a_text_without_own_instructions_has_no_label() -> None:
    for edition in (1, 2):
        plain = build_system_text(TOOLS, SystemSettings(edition=edition, instructions=" \n"))
        assert label_digest(plain.sections.split(" ")) == ""
    assert own_label("") == ""
    assert own_label("one") != own_label("two")


@pytest.mark.parametrize("edition", [1, 2])
def test_the_parts_of_a_configuration_add_up_to_its_text(edition: int) -> None:
    for protocol in ("channels", "native"):
        settings = SystemSettings(edition=edition, instructions=RHYMES, protocol=protocol, several_actions=True)
        parts = list_parts(TOOLS, settings)
        whole = build_system_text(TOOLS, settings)
        assert abs(sum(part.tokens for part in parts) - whole.tokens) < whole.tokens * 0.05 or protocol == "native"
        assert parts[-1].name == "own"
        assert f"own.{parts[-1].version}" == own_label(RHYMES)
        assert {part.name for part in parts} >= {"agent", "tools" if protocol == "channels" else "functions"}
    assert [part.name for part in parts if not part.stands] == (
        ["reply", "examples", "one_action", "channels", "output"] * (edition - 1)
    )


def test_a_turn_shows_the_text_that_it_ran_with(tmp_path: Path) -> None:
    async def run() -> None:
        store = MemoryStore()
        conversation = await take_turn(store, None, tmp_path, "")
        await take_turn(store, conversation, tmp_path, RHYMES)
        (first,), (second,) = [await load_turn_instructions(store, conversation, turn) for turn in ("1", None)]
        assert (first.number, first.own, second.number) == (1, "", 2)
        assert f"own.{second.own}" == own_label(RHYMES)
        assert find_own_instructions(second.text, second.own) == RHYMES
        assert first.sections == second.sections != ()
        assert second.tokens == estimate_tokens(second.text)
        assert [part.name for part in second.parts][-2:] == ["tools", "own"]
        assert second.path.endswith("react.model.1")
        for turn in ("3", "turn_none"):
            with pytest.raises(CodedError, match="number of turns: 2"):
                await load_turn_instructions(store, conversation, turn)

    asyncio.run(run())


def test_the_parts_of_an_agent_are_listed_with_its_tools(tmp_path: Path) -> None:
    settings = AgentSettings(data_dir=tmp_path, edition=2)
    few = list_instructions(settings, "script:x", ToolRegistry([]))
    many = list_instructions(settings, "script:x", ToolRegistry(react_tools()))
    assert {part.name for part in few if part.stands} < {part.name for part in many if part.stands}


async def take_turn(
    store: MemoryStore, conversation: ConversationId | None, folder: Path, instructions: str
) -> ConversationId:
    settings = AgentSettings(data_dir=folder, edition=2, instructions=instructions)
    session = await open_session(store, conversation, HEADER)
    model = ScriptedModel([answers("Done.")] * 2)
    runner = build_turn_runner(session, model, settings, lambda _: None)
    await runner.run("Hello")
    await session.close()
    return session.conversation
