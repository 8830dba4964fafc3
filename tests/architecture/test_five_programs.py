"""The five programs of the documentation stay as short as they promise; `test_docs` runs them."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "five-programs.md"

MAX_LINES = {
    "Hello with a tool": 12,
    "Approval, budget and a typed answer": 28,
    "A web application for many users": 21,
    "Your own model": 50,
    "A test of an agent": 13,
}
"""The most lines of each program: of its first fence, without blank lines and lines that only have a comment."""

LINE_CHARS = 120


def read_program(heading: str) -> list[str]:
    section = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2]
    fence = re.search(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    assert fence, f"{PAGE.name} has no program under {heading!r}"
    return [line for line in fence[1].splitlines() if line.strip() and not line.lstrip().startswith("#")]


@pytest.mark.parametrize(("heading", "most"), MAX_LINES.items())
def test_a_program_has_at_most_its_lines(heading: str, most: int) -> None:
    lines = read_program(heading)
    assert 5 < len(lines) <= most
    assert max(map(len, lines)) <= LINE_CHARS


ALLOWED = {"asyncio", "collections", "contextlib", "httpx2", "json", "msgspec", "starlette", "timeloom", "typing"}


@pytest.mark.parametrize("heading", MAX_LINES)
def test_a_program_hides_no_code_in_other_files(heading: str) -> None:
    imports = [line.split()[1] for line in read_program(heading) if line.startswith(("import ", "from "))]
    assert {name.partition(".")[0] for name in imports} <= ALLOWED
