"""What runs inside a sandbox; nothing of it is imported outside."""

from pathlib import Path
from typing import Final

BOOTSTRAP: Final = Path(__file__).with_name("bootstrap.py")
"""The one file that a sandbox's interpreter is started with. Where the interpreter is of one's own version, a `.pyc` of
it may be started in its place, which saves the 7 ms that compiling takes."""
