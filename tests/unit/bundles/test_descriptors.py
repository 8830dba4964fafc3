"""Descriptors name tools and skills; a wrong form is refused with its file and line."""

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest

from tests.harness.bundle_folder import load_file, write_package
from timeloom import McpServer, SkillRule, SkillsDescriptor, ToolModule, ToolsDescriptor
from timeloom.bundles.context import BundleContext
from timeloom.bundles.descriptors.find_module import ModuleOwner, find_module
from timeloom.bundles.descriptors.load_tools import load_toolset
from timeloom.bundles.descriptors.read_module import read_skills_module, read_tools_module
from timeloom.core.codes import CodedError
from timeloom.tools.react.toolset import react_tools
from timeloom.tools.registry import ToolRegistry

HERE = Path(__file__).name


def refusal(make: Callable[[], object]) -> str:
    with pytest.raises(CodedError) as caught:
        make()
    assert caught.value.code == "descriptor_malformed"
    return str(caught.value)


@pytest.mark.parametrize(
    ("make", "fix"),
    [
        (lambda: ToolModule(module="shop tools"), "`module` is like `shop.tools` or `shop.tools:TOOLS`"),
        (lambda: ToolModule(module="shop", alias="a.b"), "no dot, got 'a.b'"),
        (lambda: ToolModule(module="shop", tools=cast("tuple[str, ...]", "find")), "must be a tuple of names"),
        (lambda: McpServer(server_id=""), "`server_id` has letters"),
        (lambda: ToolsDescriptor(modules=cast("tuple[ToolModule, ...]", ("shop",))), "must be a tuple of ToolModule"),
        (lambda: ToolsDescriptor(allowed=cast("tuple[str, ...]", [""])), "`allowed` must be a tuple of names"),
        (lambda: SkillsDescriptor(roots=cast("tuple[str, ...]", 7)), "`roots` must be a tuple of names"),
        (lambda: SkillsDescriptor(agents=cast("dict[str, SkillRule]", {"a": 1})), "`agents` maps the names"),
    ],
)
def test_a_wrong_value_is_refused_where_it_is_defined(make: Callable[[], object], fix: str) -> None:
    message = refusal(make)
    line = make.__code__.co_firstlineno
    assert message.startswith(f"{HERE}, line {line}: ")
    assert fix in message


def module_of(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> ModuleType:
    (folder / "tools_descriptor.py").write_text(text)
    return load_file(folder / "tools_descriptor.py", "shop_descriptor", monkeypatch)


def test_a_module_holds_a_descriptor_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from timeloom import *\nTOOLS = ToolsDescriptor(\n  modules=(ToolModule(module='a.b', alias='shop'),))\n"
    found = read_tools_module(module_of(tmp_path, monkeypatch, text))
    assert found == ToolsDescriptor(modules=(ToolModule(module="a.b", alias="shop"),))
    assert found.place == "tools_descriptor.py, line 2"
    assert found.modules[0].place == "tools_descriptor.py, line 3"


V3 = """
TOOLS_SPECS = [
    {"module": "shop.tools", "alias": "shop"},
    {"ref": "tools/more.py", "alias": "more", "tools": ["find"]},
]
MCP_TOOL_SPECS: list = [{"server_id": "docs", "alias": "docs", "tools": ["*"]}]
"""


def test_a_module_may_have_the_constants_of_v3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = read_tools_module(module_of(tmp_path, monkeypatch, V3))
    assert found.modules == (
        ToolModule(module="shop.tools", alias="shop"),
        ToolModule(module="tools.more", alias="more", tools=("find",)),
    )
    assert found.modules[1].place == "tools_descriptor.py, line 4"
    assert found.mcp_servers == (McpServer(server_id="docs", alias="docs"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("X = 1", "tools_descriptor.py: the module has no ToolsDescriptor; define one, or TOOLS_SPECS"),
        ("TOOLS_SPECS = {}", "line 1: TOOLS_SPECS must be a list of mappings, got dict"),
        ("TOOLS_SPECS = [\n  7]", "line 2: an entry of TOOLS_SPECS must be a mapping, got int"),
        ("TOOLS_SPECS = [{'alias': 'a'}]", "line 1: an entry of TOOLS_SPECS has either `module`"),
        ("TOOLS_SPECS = [\n\n{'module': 'a', 'aliaz': 'a'}]", "line 3: an entry of TOOLS_SPECS has no field 'aliaz'"),
        ("TOOLS_SPECS = [{'module': 7}]", "line 1: `module` must be a text, got int"),
        ("TOOLS_SPECS = [{'module': 'a', 'tools': 'x'}]", "line 1: `tools` must be a tuple of names"),
        ("MCP_TOOL_SPECS = [{}]", "line 1: `server_id` has letters"),
        ("TOOLS_SPECS = []\nALLOWED_TOOLS = 'all'", "line 1: `allowed` must be a tuple of names"),
        ("from timeloom import *\nA = ToolsDescriptor()\nB = ToolsDescriptor(allowed=('a',))", "found 2; keep one"),
    ],
)
def test_a_wrong_module_is_refused_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    module = module_of(tmp_path, monkeypatch, text)
    assert message in refusal(lambda: read_tools_module(module))


def test_a_skills_module_names_roots_and_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "import pathlib\nCUSTOM_SKILLS_ROOT = pathlib.Path('skills')\nAGENTS_CONFIG = {'react': {'disabled': ['a.*']}}"
    )
    found = read_skills_module(module_of(tmp_path, monkeypatch, text))
    assert found == SkillsDescriptor(roots=("skills",), agents={"react": SkillRule(disabled=("a.*",))})
    text = "from timeloom import *\nSKILLS = SkillsDescriptor(roots=('skills',))"
    assert read_skills_module(module_of(tmp_path, monkeypatch, text)).roots == ("skills",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CUSTOM_SKILLS_ROOT = 7", "line 1: CUSTOM_SKILLS_ROOT must be a folder or None, got int"),
        ("AGENTS_CONFIG = []", "line 1: AGENTS_CONFIG must be a mapping, got list"),
        ("AGENTS_CONFIG = {'react': {'on': []}}", "line 1: the agent react has no field 'on'"),
        ("AGENTS_CONFIG = {'react': {'enabled': [7]}}", "line 1: `enabled` must be a tuple of names"),
    ],
)
def test_a_wrong_skills_module_is_refused_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    module = module_of(tmp_path, monkeypatch, text)
    assert message in refusal(lambda: read_skills_module(module))


def load(descriptor: ToolsDescriptor, owner: str = __name__) -> list[str]:
    base = ToolRegistry(react_tools())
    found = load_toolset(descriptor, base, ModuleOwner(module=owner, bundle="shop"), BundleContext(bundle="shop"))
    return [spec.tool_id for spec in found.specs() if not spec.tool_id.startswith("react.")]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a package with tools."""
    broken = "import os\n\nos.missing_name\n"
    module = write_package(tmp_path, "shop_pkg", {"broken.py": broken, "empty.py": ""}, monkeypatch)
    return module.__name__


def test_tools_come_from_modules_with_an_alias_and_a_choice(shop: str) -> None:
    assert load(ToolsDescriptor(modules=(ToolModule(module=f"{shop}.tools"),))) == [
        "shop.close",
        "tools.find",
        "tools.sign",
    ]
    chosen = ToolModule(module=f"{shop}.tools", alias="orders", tools=("find", "shop.close"))
    assert load(ToolsDescriptor(modules=(chosen,))) == ["orders.close", "orders.find"]
    assert load(ToolsDescriptor(modules=(ToolModule(module=f"{shop}.tools:find"),), allowed=("tools.find",))) == [
        "tools.find"
    ]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("shop_pkg.gone", "cannot be imported: ModuleNotFoundError: No module named 'shop_pkg.gone'"),
        ("shop_pkg.broken", "has no attribute 'missing_name' (broken.py, line 3)"),
        ("shop_pkg.empty", "has no tools; decorate its functions with @tool"),
        ("shop_pkg.tools:other", "the module shop_pkg.tools has no other"),
        ("shop_pkg.tools:get_plain", "is no tool and no list of tools"),
    ],
)
@pytest.mark.usefixtures("shop")
def test_a_module_without_tools_is_refused_where_the_descriptor_names_it(entry: str, message: str) -> None:
    descriptor = ToolsDescriptor(modules=(ToolModule(module=entry),))
    text = refusal(lambda: load(descriptor))
    assert text.startswith(f"{HERE}, line ")
    assert message in text


def test_misspelled_and_taken_tools_are_refused(shop: str) -> None:
    module = f"{shop}.tools"
    wrong = ToolsDescriptor(modules=(ToolModule(module=module, tools=("fnd",)),))
    assert "has no tool 'fnd'; its tools are close, find, sign" in refusal(lambda: load(wrong))
    twice = ToolsDescriptor(modules=(ToolModule(module=module), ToolModule(module=f"{module}:find")))
    assert "is an id or alias of tools.find (tools.py, line 6), which is listed twice" in refusal(lambda: load(twice))
    allowed = ToolsDescriptor(modules=(ToolModule(module=module),), allowed=("tools.fnd", "exec_tools.*"))
    assert "`allowed` names 'tools.fnd'" in refusal(lambda: load(allowed))
    assert "the nearest are tools.find" in refusal(lambda: load(allowed))


def test_a_builtin_tool_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from timeloom import tool\n\n@tool('react.read')\ndef read() -> str:\n    '''Read.'''\n    return ''\n"
    write_package(tmp_path, "greedy_pkg", {"tools.py": text}, monkeypatch)
    descriptor = ToolsDescriptor(modules=(ToolModule(module="greedy_pkg.tools"),))
    assert "is an id or alias of react.read" in refusal(lambda: load(descriptor))


def test_two_bundles_never_get_each_others_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "workflow.py").write_text("")
        (tmp_path / name / "names.py").write_text(f"NAME = {name!r}\n")
        load_file(tmp_path / name / "workflow.py", f"bundle_{name}", monkeypatch)
    for name in ("first", "second"):
        owner = ModuleOwner(module=f"bundle_{name}", bundle="any")
        assert name == find_module("names", owner, "here").NAME
        assert name == find_module(f"{name}.names", owner, "here").NAME
        assert find_module("names", owner, "here") is find_module("names", owner, "here")


def test_a_package_is_searched_before_installed_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_package(tmp_path, "own_pkg", {"json.py": "NAME = 'own'\n", "workflow.py": ""}, monkeypatch)
    owner = ModuleOwner(module="own_pkg.workflow", bundle="shop")
    assert find_module("json", owner, "here").NAME == "own"
    assert find_module("own_pkg.json", owner, "here").NAME == "own"
    assert find_module("shop.json", owner, "here").NAME == "own"
    assert find_module("email.message", owner, "here").__name__ == "email.message"


def test_a_broken_file_is_read_again_after_its_repair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "workflow.py").write_text("")
    (tmp_path / "names.py").write_text("raise SystemExit(3)\n")
    load_file(tmp_path / "workflow.py", "bundle_repaired", monkeypatch)
    owner = ModuleOwner(module="bundle_repaired")
    assert "SystemExit: 3 (names.py, line 1)" in refusal(lambda: find_module("names", owner, "here"))
    (tmp_path / "names.py").write_text("NAME = 'repaired'\n")
    assert find_module("names", owner, "here").NAME == "repaired"


def test_an_import_that_hangs_stops_one_bundle_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module waits for an event that the test sets at its end."""
    monkeypatch.setitem(sys.modules, "hang_events", gate := ModuleType("hang_events"))
    begun, released = threading.Event(), threading.Event()
    vars(gate).update(begun=begun, released=released)
    (tmp_path / "workflow.py").write_text("")
    (tmp_path / "slow.py").write_text("import hang_events\nhang_events.begun.set()\nhang_events.released.wait()\n")
    (tmp_path / "quick.py").write_text("NAME = 'quick'\n")
    hanging, other = (ModuleOwner(module=f"bundle_{name}", bundle=name) for name in ("hanging", "other"))
    for owner in (hanging, other):
        load_file(tmp_path / "workflow.py", owner.module, monkeypatch)
    thread = threading.Thread(target=find_module, args=("slow", hanging, "here"))
    thread.start()
    try:
        begun.wait()
        assert find_module("quick", other, "here").NAME == "quick"
        assert "waits for another import of the bundle hanging that hangs" in refusal(
            lambda: find_module("quick", replace(hanging, wait_s=0.01), "here")
        )
    finally:
        released.set()
        thread.join()
    assert find_module("quick", hanging, "here").NAME == "quick"
