"""The built page in the package is what its sources give."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_built_page_comes_from_the_sources_that_are_there() -> None:
    spec = importlib.util.spec_from_file_location("page_script", ROOT / "scripts" / "page.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert (script.BUILT / script.STAMP).read_text().strip() == script.checksum(script.WEB), "make page"


def test_no_file_of_the_page_names_a_registry() -> None:
    assert "resolved" not in (ROOT / "web" / "package-lock.json").read_text()


def test_the_lock_has_the_binaries_of_every_platform() -> None:
    packages = json.loads((ROOT / "web" / "package-lock.json").read_text())["packages"]
    wanted = {f"node_modules/{name}" for one in packages.values() for name in one.get("optionalDependencies", {})}
    # No node runs on WebAssembly.
    assert {name for name in wanted - packages.keys() if "wasm" not in name} == set()
