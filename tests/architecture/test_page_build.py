"""The built page in the package is what its sources give."""

import importlib.util
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
