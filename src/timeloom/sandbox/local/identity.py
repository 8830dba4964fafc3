"""Verifies from outside that a process is isolated, because its own view could be wrong."""

from functools import cache
from pathlib import Path
from typing import Final

from timeloom.ports.sandbox import SandboxUnavailableError
from timeloom.sandbox.folders.run_folder import FolderOwner

_NAMESPACES: Final = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_NONE: Final = "0000000000000000"


def check_identity(pid: int, owner: FolderOwner) -> None:
    """Raise unless the kernel reports the process as that user, in a user namespace other than ours.

    A sandbox that root started may show its user as 1001 while that user is still root on the host.
    """
    fields = _status(pid)
    is_expected = (
        owner.uid != 0
        and _namespace(str(pid), "user") != _own_namespace("user")
        and fields["Uid"] == [str(owner.uid)] * 4
        and fields["Gid"] == [str(owner.gid)] * 4
        and (owner.is_current_user or not fields["Groups"])
    )
    if not is_expected:
        raise SandboxUnavailableError("a program would have run with rights of this process, so it was not started")


def check_isolated(pid: int) -> None:
    """Raise unless the process has separate namespaces, the seccomp filter and no capabilities."""
    shared = [name for name in _NAMESPACES if _namespace(str(pid), name) == _own_namespace(name)]
    if shared:
        raise SandboxUnavailableError(f"a program would have shared our namespace ({', '.join(shared)})")
    fields = _status(pid)
    if fields["Seccomp"] != ["2"] or fields["NoNewPrivs"] != ["1"]:
        raise SandboxUnavailableError("a program would have run without the filter of system calls")
    if any(fields[name] != [_NONE] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")):
        raise SandboxUnavailableError("a program would have kept capabilities")


@cache
def _own_namespace(name: str) -> Path:
    return _namespace("self", name)


def _namespace(process: str, name: str) -> Path:
    return Path(f"/proc/{process}/ns/{name}").readlink()


def _status(pid: int) -> dict[str, list[str]]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    return {name: values.split() for name, _, values in (line.partition(":") for line in lines)}
