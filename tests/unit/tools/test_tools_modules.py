"""Tools that a command line names are loaded from modules, and a fault names its file and line."""

import sys
from pathlib import Path

import pytest

from timeloom.core.codes import CodedError
from timeloom.tools.modules import load_named_tools

MODULE = '''
from timeloom import tool

@tool(effect="pure")
def weather(city: str) -> str:
    """Return the weather."""
    return city

TOOLS = [weather]
NUMBER = 7
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "named_tools.py").write_text(MODULE)
    (tmp_path / "broken_tools.py").write_text("\nx = 1 / 0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])


@pytest.mark.parametrize("name", ["named_tools:weather", "named_tools:TOOLS"])
def test_a_name_of_a_module_is_a_tool_or_a_list_of_tools(name: str) -> None:
    assert [tool.spec.tool_id for tool in load_named_tools([name])] == ["tools.weather"]


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("named_tools:", "expected MODULE:NAME"),
        ("../x:tool", "expected MODULE:NAME"),
        ("named_tools:nothing", "has no nothing"),
        ("named_tools:NUMBER", "is no tool and no list of tools"),
        ("no_such_module:tool", "No module named 'no_such_module'"),
        ("broken_tools:tool", r"ZeroDivisionError: .* \(broken_tools\.py, line 2\)"),
        ("not-installed", "no installed package offers"),
    ],
)
def test_a_fault_is_named(name: str, fault: str) -> None:
    with pytest.raises(CodedError, match=fault):
        load_named_tools([name])
