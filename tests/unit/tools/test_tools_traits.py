"""Tools declare their traits; the registry knows which of them calls have to record."""

import pytest

from tests.harness.exec import PlainSandbox
from timeloom.core.blocks import ToolTraits
from timeloom.core.blocks.tool_traits import find_builtin_traits
from timeloom.core.codes import CodedError
from timeloom.ports.tool import ToolSpec
from timeloom.tools import FunctionTool, ToolRegistry, tool
from timeloom.tools.exec.tool import ExecTool
from timeloom.tools.react.toolset import react_tools

BUILT_IN = [one.spec for one in (*react_tools(), ExecTool(PlainSandbox()))]
WRITES = ToolTraits(path_param="to", content_param="text")


def saving(tool_id: str, *aliases: str, traits: ToolTraits | None = WRITES) -> FunctionTool:
    @tool(tool_id, aliases=aliases, traits=traits)
    async def save(to: str, text: str) -> None:
        """Saves."""

    return save


@pytest.mark.parametrize("spec", BUILT_IN, ids=lambda spec: spec.tool_id)
def test_the_built_in_tools_declare_what_the_table_says(spec: ToolSpec) -> None:
    for name in (spec.tool_id, *spec.aliases):
        assert spec.traits == find_builtin_traits(name)


def test_calls_of_built_in_tools_record_no_traits() -> None:
    assert ToolRegistry((*react_tools(), ExecTool(PlainSandbox()))).custom_traits == {}


def test_the_traits_of_other_tools_are_found_by_id_and_alias() -> None:
    registry = ToolRegistry([saving("notes.save", "notes.keep"), saving("notes.plain", traits=None)])
    assert registry.custom_traits == {"notes.save": WRITES, "notes.keep": WRITES}
    assert registry.traits_of("notes.keep") == WRITES
    assert registry.traits_of("notes.plain") == registry.traits_of("notes.missing") == ToolTraits()


def test_traits_equal_to_the_built_in_ones_are_not_custom() -> None:
    assert ToolRegistry([saving("notes.save", traits=ToolTraits())]).custom_traits == {}
    shadow = ToolRegistry([saving("react.read", traits=ToolTraits())])
    assert shadow.custom_traits == {"react.read": ToolTraits()}
    assert ToolRegistry([saving("exec_tools.run", traits=None)]).traits_of("exec_tools.run").runs_code


@pytest.mark.parametrize("traits", [ToolTraits(path_param="path"), ToolTraits(content_param="body")])
def test_traits_that_name_a_missing_parameter_are_refused(traits: ToolTraits) -> None:
    with pytest.raises(CodedError, match="which the tool does not have") as refused:
        saving("notes.save", traits=traits)
    assert refused.value.code == "tool_malformed"
