"""Code that runs inside a sandbox; the supervisor ships these files and does not run them itself."""

from pathlib import Path
from typing import Final

BOOTSTRAP: Final = Path(__file__).with_name("bootstrap.py")
"""The single file with which the guest interpreter starts. If the interpreter has the same version as ours, a `.pyc` of
it may be used instead, which saves the 7 ms of compiling."""
