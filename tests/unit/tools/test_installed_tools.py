"""Tools that installed packages offer."""

import sys
from pathlib import Path

import pytest

from tests.harness.installed_package import install_package
from timeloom.core.codes import CodedError
from timeloom.tools.installed import list_installed_tools, load_installed_tools

CODE = '''
from timeloom.tools.define import tool


@tool("acme.send")
async def send(address: str) -> str:
    """Sends a letter."""
    return address


several = [send]
wrong = 7
'''


@pytest.fixture(autouse=True)
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = "[timeloom.tools]\nletter = acme_tools:send\nletters = acme_tools:several\nwrong = acme_tools:wrong\n"
    install_package(tmp_path, "acme_tools", CODE, points, monkeypatch)
    monkeypatch.delitem(sys.modules, "acme_tools", raising=False)


def test_listing_tools_loads_none() -> None:
    assert {"letter", "letters", "wrong"} <= set(list_installed_tools())
    assert load_installed_tools([]) == ()
    assert "acme_tools" not in sys.modules


def test_a_named_entry_point_gives_its_tool_or_its_list() -> None:
    assert [one.spec.tool_id for one in load_installed_tools(["letter", "letters"])] == ["acme.send", "acme.send"]


@pytest.mark.parametrize(("name", "why"), [("wrong", "acme_tools:wrong"), ("nobody", "offered are: .*letter")])
def test_other_names_and_objects_are_refused(name: str, why: str) -> None:
    with pytest.raises(CodedError, match=why):
        load_installed_tools([name])
