"""Decides whether the interactive screen can be used."""

import os
import sys
from collections.abc import Mapping


def can_use_screen(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether standard input and output are a terminal that can move its cursor."""
    return sys.stdin.isatty() and sys.stdout.isatty() and environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
