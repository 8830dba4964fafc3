"""Code that runs inside a container besides the bootstrap; the supervisor ships these files to the image."""

from pathlib import Path
from typing import Final

LAUNCH: Final = Path(__file__).with_name("launch.py")
"""The first process of a container."""

RELAY: Final = Path(__file__).with_name("relay.py")
"""The module that `launch.py` imports in a combined container."""
