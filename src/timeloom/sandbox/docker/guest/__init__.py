"""What runs inside a container beside the interpreter's own program; nothing of it is imported outside."""

from pathlib import Path
from typing import Final

LAUNCH: Final = Path(__file__).with_name("launch.py")
"""The first process of a container."""

RELAY: Final = Path(__file__).with_name("relay.py")
"""What `launch.py` imports in a combined container."""
