"""Tools are found by id and alias, stand in one order, and an unknown id is answered with the nearest ones."""

import asyncio
from typing import cast

import pytest

from tests.harness.timeline import BlockTimeline, make_context
from timeloom.core.codes import CodedError
from timeloom.ports.tool import Tool
from timeloom.tools import FunctionTool, ToolRegistry, UnknownTool, tool


def named(tool_id: str, *aliases: str) -> FunctionTool:
    @tool(tool_id, aliases=aliases)
    async def nothing() -> None:
        """Does nothing."""

    return nothing


READ, HIDE, SEARCH = named("react.read"), named("react.hide", "react.memory_hide"), named("web_tools.web_search")
REGISTRY = ToolRegistry([SEARCH, READ, HIDE])


def message(tools: ToolRegistry, name: str) -> str:
    outcome = asyncio.run(tools.resolve(name).call("{}", make_context(BlockTimeline())))
    assert outcome.error is not None
    assert outcome.error.code == "unknown_tool"
    return outcome.error.message


def test_a_tool_is_found_by_its_id_and_its_aliases() -> None:
    assert REGISTRY.get("react.hide") is REGISTRY.get("react.memory_hide") is HIDE
    assert REGISTRY.resolve("react.read") is READ
    assert REGISTRY.get("react.write") is None


def test_the_catalogue_is_in_the_order_of_ids_however_they_came() -> None:
    ids = [spec.tool_id for spec in ToolRegistry([SEARCH, HIDE, READ]).specs()]
    assert ids == ["react.hide", "react.read", "web_tools.web_search"] == [spec.tool_id for spec in REGISTRY.specs()]
    assert len(REGISTRY) == 3


def test_more_tools_make_another_registry() -> None:
    more = REGISTRY.with_tools([named("x.y")])
    assert (len(REGISTRY), len(more)) == (3, 4)


@pytest.mark.parametrize("twice", [named("react.read"), named("x.y", "react.hide"), named("react.memory_hide")])
def test_an_id_that_is_taken_is_refused(twice: FunctionTool) -> None:
    with pytest.raises(CodedError, match="is an id or alias of") as refused:
        REGISTRY.with_tools([twice])
    assert refused.value.code == "tool_malformed"


def test_a_plain_function_in_place_of_a_tool_is_refused_with_the_fix() -> None:
    def weather(city: str) -> str:
        return city

    tools = cast(list[Tool], [weather])
    with pytest.raises(CodedError, match=r"'weather' is not a tool; write @tool above the function"):
        ToolRegistry(tools)


@pytest.mark.parametrize("tool_id", ["read", "", ".read", "react.", "react read", "react.read\n", "a." + "b" * 127])
def test_an_id_has_a_family_and_a_name(tool_id: str) -> None:
    with pytest.raises(CodedError, match=r"must look like family\.name"):
        ToolRegistry([named(tool_id)])


@pytest.mark.parametrize(
    ("allowed", "left"),
    [
        (["react.read"], ["react.read"]),
        (["react.*"], ["react.hide", "react.read"]),
        (["react.memory_hide", "no.such"], ["react.hide"]),
        (["*"], ["react.hide", "react.read", "web_tools.web_search"]),
        ([], []),
        (["rea*"], []),
    ],
)
def test_an_allow_list_leaves_what_it_names(allowed: list[str], left: list[str]) -> None:
    assert [spec.tool_id for spec in REGISTRY.restrict_to(allowed).specs()] == left


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("react.reed", "there is no tool 'react.reed'; the nearest are react.read"),
        ("tools.read", "the nearest are react.read"),
        ("web_search", "the nearest are web_tools.web_search"),
        ("react.memory_hid", "the nearest are react.hide"),
        ("", "there is no tool ''; choose one of the catalogue"),
        ("☃" * 1000, "there is no tool '\\u2603\\u2603"),
    ],
)
def test_an_unknown_id_is_answered_with_the_nearest_ones(name: str, said: str) -> None:
    assert said in message(REGISTRY, name)


def test_a_call_of_an_unknown_tool_can_be_repeated() -> None:
    assert UnknownTool("x.y").spec.effect == "pure"


def test_a_tool_that_is_not_allowed_is_not_mentioned() -> None:
    assert "react.hide" not in message(REGISTRY.restrict_to(["react.read"]), "react.hide").partition(";")[2]
