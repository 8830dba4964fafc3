"""Facts about tools are traits: no other module of the core, the wire or the runtime compares tool ids."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.harness.exec import PlainSandbox
from tests.harness.repository import ROOT
from timeloom.core.blocks import ToolTraits
from timeloom.tools.exec.tool import ExecTool
from timeloom.tools.react.toolset import react_tools

PACKAGE = ROOT / "src" / "timeloom"
TABLE = PACKAGE / "core" / "blocks" / "tool_traits.py"
TYPE_NAMES = frozenset({"react.plan"})
"""Ids that are also block types; `core/blocks` declares those."""


def strings_of(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_tool_ids_stand_in_one_module_only() -> None:
    specs = [tool.spec for tool in (*react_tools(), ExecTool(PlainSandbox()))]
    ids = {name for spec in specs for name in (spec.tool_id, *spec.aliases)}
    families = {name.partition(".")[0] + "." for name in ids}
    wanted = re.compile("|".join(re.escape(name) for name in ids | families))
    files = [file for layer in ("core", "wire", "runtime") for file in sorted((PACKAGE / layer).rglob("*.py"))]
    found = {
        (file.relative_to(PACKAGE).as_posix(), text)
        for file in files
        if file != TABLE
        for text in strings_of(file)
        if wanted.fullmatch(text)
    }
    assert len(files) > 100
    assert ids <= set(strings_of(TABLE)) | {"exec_tools.execute_code_python"}
    assert {one for one in found if one[1] not in TYPE_NAMES} == set()
    assert {file for file, _ in found} <= {"core/blocks/plan.py"}


def test_every_trait_is_documented() -> None:
    page = (ROOT / "docs" / "how-to" / "write-a-tool.md").read_text(encoding="utf-8")
    assert [name for name in ToolTraits.__struct_fields__ if f"\n| `{name}` |" not in page] == []
