"""Measures the import time in a fresh interpreter."""

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Final

from bench.report import BenchSection, BenchTable
from bench.settings import BenchRun

_HERE: Final = (
    "import timeloom",
    "import timeloom.core.view.views",
    "import timeloom.wire.record",
    "import timeloom.stores.sqlite",
)
_THERE: Final = (
    "import langgraph.graph",
    "import langgraph.graph, langgraph.checkpoint.sqlite",
)
_PROGRAM: Final = """
import json, sys, time
before, started = set(sys.modules), time.perf_counter()
{statement}
took = time.perf_counter() - started
print(json.dumps([took, len(set(sys.modules) - before)]))
"""


def measure_imports(run: BenchRun) -> BenchSection:
    """Measure each import separately."""
    rows = [_row("timeloom", Path(sys.executable), statement, run.sizes.imports) for statement in _HERE]
    if run.peer:
        rows += [_row("LangGraph", run.peer, statement, run.sizes.imports) for statement in _THERE]
    columns = ("side", "statement", "ms", "modules")
    return BenchSection(tables=(BenchTable(title="Importing", columns=columns, rows=tuple(rows)),))


def _row(side: str, python: Path, statement: str, repeats: int) -> tuple[str, str, float, int]:
    # The first run is dropped: it may have to compile modules.
    found = [_import(python, statement) for _ in range(repeats + 1)][1:]
    return side, f"`{statement}`", statistics.median(took for took, _ in found) * 1000, found[0][1]


def _import(python: Path, statement: str) -> tuple[float, int]:
    program = _PROGRAM.format(statement=statement)
    done = subprocess.run([str(python), "-I", "-c", program], capture_output=True, check=True)
    took, modules = json.loads(done.stdout)
    return float(took), int(modules)
