"""Verifies from the host that a container's interpreter is isolated before a program runs in it."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from timeloom.ports.sandbox import SandboxUnavailableError
from timeloom.sandbox.folders.run_folder import FolderOwner

_NAMESPACES: Final = ("net", "pid", "mnt", "ipc", "uts")
_CAPABILITIES: Final = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
_FILTERED: Final = "2"
_INTERPRETER: Final = 1


def check_identity(pids: Sequence[int], owner: FolderOwner) -> None:
    """Raise unless the interpreter, the child of the first process, has the required user and isolation."""
    if len(pids) <= _INTERPRETER:
        raise SandboxUnavailableError(
            "the processes of a container are not visible here: run timeloom on the engine's machine, and where that"
            " is in a container itself, with `--pid host`"
        )
    violations = list(_find_violations(pids[_INTERPRETER], owner))
    if violations:
        raise SandboxUnavailableError(f"a container is not closed as it was asked to be: {', '.join(violations)}")


def _find_violations(pid: int, owner: FolderOwner) -> list[str]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    fields = {name: values.split() for name, _, values in (line.partition(":") for line in lines)}
    found = [f"{name} {fields[name][0]}" for name in _CAPABILITIES if int(fields[name][0], 16)]
    for name, value in (("Uid", owner.uid), ("Gid", owner.gid)):
        if fields[name] != [str(value)] * 4 or value == 0:
            found.append(f"{name} {fields[name][0]}")
    if fields["NoNewPrivs"] != ["1"]:
        found.append("it may gain privileges")
    if fields["Seccomp"] != [_FILTERED]:
        found.append("its system calls are not filtered")
    return found + [f"it shares the {name} namespace" for name in _NAMESPACES if _shares_namespace(pid, name)]


def _shares_namespace(pid: int, namespace: str) -> bool:
    return os.stat(f"/proc/{pid}/ns/{namespace}").st_ino == os.stat(f"/proc/self/ns/{namespace}").st_ino  # noqa: PTH116
