"""Paths of the repository's files, and the command that runs a test module as a program."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"


def program(module: str) -> list[str]:
    """Return the command that runs a test module; its working directory must be `ROOT`."""
    return [sys.executable, "-m", module]
