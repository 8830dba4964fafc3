"""The local sandbox: runs programs on this machine in namespaces created by bubblewrap.

In reading order: `settings`, `sandbox`, `preflight`, `host_resources`, `worker`, `execution`. A worker needs
`interpreter`, `etc`, `fonts`, `bwrap_args`, `pipes`, `spawner`, `identity`, `orphans` and `errors`.
"""

from timeloom.sandbox.local.sandbox import LocalSandbox
from timeloom.sandbox.local.settings import LocalSettings

__all__ = ["LocalSandbox", "LocalSettings"]
