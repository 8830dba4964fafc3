"""Writes small bundles with Python modules into a folder, and imports them."""

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = '''"""Tools of a shop."""

from timeloom import get_plain, get_scratchpad, get_secret, tool


@tool(effect="pure")
def find(order: str) -> str:
    """Find an order."""
    get_scratchpad()["found"] = order
    return f"order {order} in {get_plain('town')}"


@tool("shop.close", effect="pure")
async def close_shop() -> str:
    """Close the shop."""
    return "closed"


@tool(effect="pure")
def sign() -> str:
    """Sign with the secret of the shop."""
    return f"signed with {len(get_secret('b:token').reveal())} characters"
'''


def write_package(folder: Path, name: str, files: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Write a package that can be imported, and return its module `workflow`, or the package itself."""
    (folder / name).mkdir()
    for file, text in {"__init__.py": "", "tools.py": TOOLS, **files}.items():
        (folder / name / file).write_text(text)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    for known in [one for one in sys.modules if one == name or one.startswith(f"{name}.")]:
        monkeypatch.delitem(sys.modules, known)
    importlib.invalidate_caches()
    return importlib.import_module(f"{name}.workflow" if "workflow.py" in files else name)


def load_file(file: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load a module by its path, without a package."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module
