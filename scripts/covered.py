"""Fails unless the tests ran every line and every branch of core/ and wire/.

Reads the coverage data of the last test run and prints the gaps. Exits with 1 if there are any.
"""

import ast
import dis
import json
import subprocess
import sys
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent
GATED = "src/timeloom/core/*,src/timeloom/wire/*"


class FileCoverage(msgspec.Struct):
    """The gaps of one file; a branch is the line it leaves and the line it reaches, negative for an exit."""

    missing_lines: list[int]
    missing_branches: list[tuple[int, int]]


class CoverageReport(msgspec.Struct):
    """The part of coverage's JSON report that is used here."""

    files: dict[str, FileCoverage]


def main() -> int:
    """Return exit code 0 if there are no gaps."""
    report = msgspec.convert(json.loads(coverage_json()), CoverageReport)
    lenient = match_branches_are_misreported()
    gaps = {name: list_gaps(name, file, lenient) for name, file in sorted(report.files.items())}
    for name, places in gaps.items():
        if places:
            print(f"{name}: not run: {', '.join(places)}")
    whole = sum(not places for places in gaps.values())
    print(f"{whole} of {len(gaps)} files of core/ and wire/ have full branch coverage.")
    if lenient:
        print(f"Python {sys.version.split()[0]} misreports branches inside `match`: those were not counted.")
    return int(whole < len(gaps))


def coverage_json() -> str:
    """Return the coverage data of the gated files as JSON text."""
    command = [sys.executable, "-m", "coverage", "json", "--quiet", f"--include={GATED}", "-o", "-"]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def list_gaps(name: str, file: FileCoverage, lenient: bool) -> list[str]:
    """Return the lines of the file that were not run, as ranges, and missing branches between lines that were."""
    excused = match_lines(ROOT / name) if lenient else set[int]()
    excused.update(file.missing_lines)
    branches = [(start, end) for start, end in file.missing_branches if not {start, end} & excused]
    return format_ranges(file.missing_lines) + [f"{start}->{end if end > 0 else 'exit'}" for start, end in branches]


def format_ranges(lines: list[int]) -> list[str]:
    """Return ascending numbers as text: `3`, `5-7`."""
    found: list[list[int]] = []
    for line in lines:
        if found and line == found[-1][-1] + 1:
            found[-1].append(line)
        else:
            found.append([line])
    return [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found]


def match_lines(file: Path) -> set[int]:
    """Return the lines inside the file's match statements."""
    matches = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Match)]
    return {line for node in matches for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def match_branches_are_misreported() -> bool:
    """Return whether this Python assigns a wrong line to the code after an `if` that ends a case.

    Early releases of 3.11 do, Debian 12's among them: the body seems to have run, and the branch around it not.
    """
    returns = [step.positions for step in dis.get_instructions(_probe) if step.opname.startswith("RETURN")]
    return _probe.__code__.co_firstlineno + 4 in {place.lineno for place in returns if place}


def _probe(value: object) -> None:
    match value:
        case int():
            if value:
                raise ValueError
        case _:
            pass


if __name__ == "__main__":
    sys.exit(main())
