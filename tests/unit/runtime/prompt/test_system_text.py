"""The system texts of both editions: golden files, sizes, and no word about anything that is not configured."""

import os
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.exec import PlainSandbox
from timeloom.core.policy.convert_params import ToolForm
from timeloom.core.policy.read_reply import read_reply
from timeloom.core.render.catalogue import CatalogueSkill
from timeloom.core.render.v2.system.configuration import FACTS, NAMED_FACTS, ReplyProtocol
from timeloom.core.render.v2.system.sections import facts_of_condition
from timeloom.core.stream.decision import CallToolDecision, CompleteDecision
from timeloom.core.tokens import estimate_tokens
from timeloom.ports.tool import ToolSpec
from timeloom.runtime.prompt.instructions.load import SECTION_ORDER, load_sections
from timeloom.runtime.prompt.system_text import SystemSettings, SystemTexts, build_system_text
from timeloom.tools.exec.tool import ExecTool
from timeloom.tools.react.toolset import react_tools

FOLDER: Final = Path(__file__).parents[3] / "golden" / "prompts"
BUILT_IN: Final = tuple(tool.spec for tool in (*react_tools(text_version=2), ExecTool(PlainSandbox())))
OWN: Final = (
    ToolSpec(
        tool_id="shop.find_order",
        purpose="Find an order by its number.",
        effect="pure",
        params_schema='{"type":"object","properties":{"number":{"type":"string","description":"the number of the '
        'order"}},"required":["number"],"additionalProperties":false}',
    ),
    ToolSpec(
        tool_id="shop.list_orders",
        purpose="List the orders of a customer.",
        effect="pure",
        params_schema='{"type":"object","properties":{"customer":{"type":"string"},"limit":{"type":"integer","default":'
        '20}},"required":["customer"],"additionalProperties":false}',
    ),
    ToolSpec(
        tool_id="shop.refund",
        purpose="Refund an order.",
        params_schema='{"type":"object","properties":{"number":{"type":"string"},"amount":{"type":"number",'
        '"description":"EUR"}},"required":["number","amount"],"additionalProperties":false}',
    ),
)
SKILLS: Final = (CatalogueSkill(ref="reports/pdf", purpose="How to make a PDF report"),)


def second(tools: Sequence[ToolSpec], settings: SystemSettings | None = None) -> str:
    return build_system_text(tools, msgspec.structs.replace(settings or SystemSettings(), edition=2)).text


OUTPUT: Final = '{"type":"object","properties":{"price":{"type":"number"}},"required":["price"]}'

GOLDEN: Final = {
    "system_first_tools.txt": lambda: build_system_text(BUILT_IN, SystemSettings()).text,
    "system_second.txt": lambda: second(BUILT_IN),
    "system_second_several.txt": lambda: second(
        BUILT_IN, SystemSettings(several_actions=True, skills=SKILLS, instructions="You know ferries.\n")
    ),
    "system_second_native.txt": lambda: second(BUILT_IN, SystemSettings(protocol="native")),
    "system_second_own_tools.txt": lambda: second(OWN),
    "system_second_no_tools.txt": lambda: second(()),
    "system_second_output.txt": lambda: second((), SystemSettings(output=OUTPUT)),
    "system_second_output_native.txt": lambda: second((), SystemSettings(output=OUTPUT, protocol="native")),
    "system_first_output.txt": lambda: build_system_text((), SystemSettings(output=OUTPUT)).text,
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_system_text_is_that_of_its_golden_file(name: str) -> None:
    text = GOLDEN[name]()
    file = FOLDER / name
    if os.environ.get("TIMELOOM_WRITE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def test_the_texts_of_edition_2_stay_within_their_sizes() -> None:
    """The limits are 2,000, 1,500 and 1,800 of Anthropic's tokens; our estimate of these texts is up to 11% lower."""
    for several in (False, True):
        settings = SystemSettings(several_actions=several, skills=SKILLS)
        instructions, _, catalogue = second(BUILT_IN, settings).partition("\n\n# Tools\n\n")
        assert estimate_tokens(instructions) <= 1_790
        assert estimate_tokens(catalogue) <= 1_335
    assert estimate_tokens(second(OWN)) <= 1_600


def test_the_sections_that_stand_are_recorded_with_their_versions() -> None:
    texts = SystemTexts(BUILT_IN, SystemSettings())
    assert texts.get(1).sections == ""
    assert texts.get(2) is texts.get(2)
    labels = texts.get(2).sections.split(" ")
    assert labels[:2] == ["agent.1", "reply.2"]
    assert not {"native.1", "several_actions.1"} & set(labels)
    assert [label.partition(".")[0] for label in labels] == [
        name for name in SECTION_ORDER if any(label.startswith(f"{name}.") for label in labels)
    ]


def test_edition_1_lists_no_tool_that_edition_2_introduced() -> None:
    assert "### react.pin" in second(BUILT_IN)
    assert "react.pin" not in build_system_text(BUILT_IN, SystemSettings()).text


def test_every_condition_tests_a_fact_that_exists() -> None:
    for section in load_sections():
        for fact in (fact for condition in section.conditions() for fact in facts_of_condition(condition)):
            kind, named, _ = fact.partition(":")
            assert kind in (NAMED_FACTS if named else FACTS), f"{section.name}: {fact}"


def test_every_section_file_has_its_place_in_the_order() -> None:
    folder = resources.files("timeloom.runtime.prompt.instructions") / "sections"
    assert {file.name for file in folder.iterdir()} == {f"{name}.md" for name in SECTION_ORDER}


configurations = st.tuples(
    st.lists(st.sampled_from((*BUILT_IN, *OWN)), unique=True),
    st.booleans(),
    st.sampled_from(("channels", "native")),
    st.sampled_from(((), SKILLS)),
)


@given(configurations)
def test_the_text_names_no_tool_path_or_channel_that_is_not_configured(
    configuration: tuple[list[ToolSpec], bool, ReplyProtocol, tuple[CatalogueSkill, ...]],
) -> None:
    tools, several, protocol, skills = configuration
    text = second(tools, SystemSettings(several_actions=several, protocol=protocol, skills=skills))
    ids = {spec.tool_id for spec in tools}
    named = set(re.findall(r"(?<![.\w])(?:react|exec_tools|shop|web_tools)\.[a-z_]+", text))
    assert named <= ids
    assert ("sk:" in text) == bool(skills)
    assert "ks:" not in text
    assert ids or "fi:" not in text
    written = set(re.findall(r"^</?channel:([A-Za-z_]+)>", text, re.MULTILINE))
    raw = {"code": "execute_code", "content": "react.write", "patch": "react.patch"}
    offered = {name for name, tool in raw.items() if any(tool in tool_id for tool_id in ids)}
    rows = set(re.findall(r"^\| `([a-z_]+)`(?:, `([a-z_]+)`)? \|", text, re.MULTILINE))
    listed = {name for row in rows for name in row if name}
    if protocol == "native":
        assert not written
        assert not listed
    else:
        assert written <= {"thinking", "action", "final_answer", "summary", "code"} - ({"code"} - offered)
        assert listed == {"thinking", "action", "final_answer", "summary", *(["notes"] if tools else []), *offered}


@given(configurations)
def test_each_example_reply_of_the_text_is_one_that_the_reader_takes(
    configuration: tuple[list[ToolSpec], bool, ReplyProtocol, tuple[CatalogueSkill, ...]],
) -> None:
    tools, several, _, _ = configuration
    text = second(tools, SystemSettings(several_actions=several))
    examples: list[str] = re.findall(r"(?:^|\n\n)(<channel:(?:.|\n)*?>)(?=\n\n|\Z)", text)
    forms = {spec.tool_id: ToolForm(spec.tool_id, spec.params_schema) for spec in tools}
    replies = [read_reply(example, edition=2, tools=forms) for example in examples]
    assert [fault for reply in replies for fault in (*reply.faults, *reply.remarks)] == []
    assert [type(one).__name__ for one in replies[-1].decisions] == [CompleteDecision.__name__]
    calls = [one for reply in replies[:-1] for one in reply.decisions]
    assert all(isinstance(call, CallToolDecision) and call.tool_id in forms for call in calls)
    code = any(spec.tool_id.startswith("exec_tools") for spec in tools)
    plain = len(tools) > code
    assert len(calls) == (plain and not (several and code)) + code + 2 * (several and plain)
