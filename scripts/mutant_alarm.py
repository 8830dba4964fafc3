"""A pytest plug-in for mutants: a test that hangs ends the whole run, so that a slow run is not taken for one."""

import os
import signal
from typing import Final

LIMIT_VARIABLE: Final = "TIMELOOM_MUTANT_TEST_S"
"""The seconds that one test may take."""


def pytest_runtest_setup() -> None:
    """Start the alarm; its default action ends the process."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, float(os.environ[LIMIT_VARIABLE]))


def pytest_runtest_teardown() -> None:
    """Stop the alarm."""
    signal.setitimer(signal.ITIMER_REAL, 0)
