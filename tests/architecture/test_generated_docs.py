"""The generated parts of the documentation are up to date, and every module has its line."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINE = re.compile(r"^ *- `(timeloom(?:_local)?/[^`]*)`: (.+)$", re.MULTILINE)


def test_what_is_written_from_the_code_is_up_to_date() -> None:
    script = ROOT / "scripts" / "docs.py"
    outcome = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, f"run `make docs`:\n{outcome.stdout}{outcome.stderr}"


def test_the_module_page_has_exactly_one_line_for_every_module() -> None:
    files = [file.relative_to(ROOT / "src").as_posix() for file in (ROOT / "src").rglob("*.py")]
    lines = LINE.findall((ROOT / "docs" / "reference" / "modules.md").read_text(encoding="utf-8"))
    assert sorted(place for place, _ in lines) == sorted(file.removesuffix("__init__.py") for file in files)
    assert [place for place, subject in lines if subject == "(has no docstring)"] == []
