"""The local sandbox: programs on this machine, each in namespaces of its own that bubblewrap makes."""

from timeloom.sandbox.local.sandbox import LocalSandbox
from timeloom.sandbox.local.settings import LocalSettings

__all__ = ["LocalSandbox", "LocalSettings"]
