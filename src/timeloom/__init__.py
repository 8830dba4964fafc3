"""timeloom: a timeline-first ReAct agent runtime."""

import sys

__version__ = "0.1.0"

PLATFORMS = "timeloom runs on Linux and macOS; on Windows, install and run it inside WSL"


def check_platform(platform: str) -> None:
    """Raise `ImportError` if this value of `sys.platform` is Windows."""
    if platform in ("win32", "cygwin", "msys"):
        raise ImportError(f"{PLATFORMS} (this Python reports the platform {platform!r})")


check_platform(sys.platform)
