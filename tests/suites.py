"""A pytest plug-in: marks tests by their suite, and warns about suites that take longer than their budget.

A suite is a folder of tests/, or a folder of tests/unit/. `budget.toml` holds the seconds that each may take on two
cores, summed over its tests; a suite over its budget is reported at the end of a run and fails nothing.
"""

import os
import tomllib
from pathlib import Path, PurePosixPath

import pytest

TESTS = Path(__file__).parent
BUDGET = TESTS / "budget.toml"

MARKERS = {
    "bench": ("bench",),
    "crash": ("crash", "slow"),
    "docker": ("docker", "slow"),
    "e2e": ("slow",),
    "escape": ("slow",),
    "fargate": ("slow",),
    "web": ("browser", "slow"),
}
"""The markers of each suite; single slow tests elsewhere carry `@pytest.mark.slow`."""


def suite_of(node: str) -> str:
    """Return the suite of a test by its node id: `tests/unit/core/x.py::t` belongs to `unit/core`."""
    parts = PurePosixPath(node.partition("::")[0]).parts[1:-1]
    return "/".join(parts[:2] if parts[:1] == ("unit",) else parts[:1])


def over_budget(spent: dict[str, float], budgets: dict[str, float]) -> list[str]:
    """Return a line for every suite that took longer than its budget."""
    return [
        f"{suite}: {seconds:.0f} s, budget {budgets.get(suite, 0):.0f} s (tests/budget.toml)"
        for suite, seconds in sorted(spent.items())
        if seconds > budgets.get(suite, 0)
    ]


class SuiteTimes:
    """Adds up how long the tests of each suite took, over all workers."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds set-up, call and tear-down."""
        suite = suite_of(report.nodeid)
        self._spent[suite] = self._spent.get(suite, 0.0) + report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints the suites that are over their budget."""
        budgets = tomllib.loads(BUDGET.read_text(encoding="utf-8"))["seconds"]
        for line in over_budget(self._spent, budgets):
            terminalreporter.write_line(f"warning: suite over budget: {line}", yellow=True)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the timer in the process that reports."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(SuiteTimes())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test of a suite."""
    for item in items:
        for marker in MARKERS.get(suite_of(item.nodeid), ()):
            item.add_marker(marker)
