"""Where the repository's own files are, and how a module of the tests is run as a program."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"


def program(module: str) -> list[str]:
    """The command that runs a module of the tests; its working directory must be `ROOT`."""
    return [sys.executable, "-m", module]
