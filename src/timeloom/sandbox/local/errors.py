"""Builds the error messages for a machine that cannot isolate a program, each with its fix."""

import errno
import os
import re
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from timeloom.ports.sandbox import MIB, ExecutionLimits, SandboxUnavailableError

INSTALL_BUBBLEWRAP: Final = (
    "bubblewrap is not installed, so programs cannot be isolated; install it "
    "(Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap; Alpine: apk add bubblewrap)"
)
_NAMESPACES: Final = (
    "this machine does not let programs be isolated in user namespaces; allow them "
    "(sysctl user.max_user_namespaces=15000, on Debian also kernel.unprivileged_userns_clone=1, on Ubuntu also "
    "kernel.apparmor_restrict_unprivileged_userns=0), or use the docker sandbox; "
    "containers usually have none"
)
_NAMESPACE_HINTS: Final = (
    "namespace",
    "Operation not permitted",
    "uid map",
    "gid map",
    "Permission denied",
    "No space left",
    "loopback",
    "mount proc",
)
_DISK_FULL: Final = (
    "the disk is full that has the folder in which programs are run, which lies in the temporary folder; "
    "free some space there, or set TMPDIR to a folder on another disk"
)
_FULL_BYTES: Final = 64 * 1024
_TOO_MANY_FILES: Final = (
    "too many files are open to run another program ({name}); this process may have {most} open: allow more "
    "(ulimit -n 1024), or run fewer programs at once"
)
_MESSAGES: Final = {
    errno.ENOSPC: _DISK_FULL,
    errno.EDQUOT: _DISK_FULL,
    errno.EMFILE: _TOO_MANY_FILES,
    errno.ENFILE: _TOO_MANY_FILES,
}
_SHOWN_CHARS: Final = 300
_PATH: Final = re.compile(r"/[^\s:]+")


def startup_error(stderr: str) -> SandboxUnavailableError:
    """Return the error for the standard error output of bubblewrap, or of the command it ran."""
    line = next((line for line in stderr.splitlines() if line.strip()), "it ended without a word")
    # Do not reveal paths of this machine.
    line = _PATH.sub("…", line)[:_SHOWN_CHARS]
    if line.startswith("bwrap:") and any(each in line for each in _NAMESPACE_HINTS):
        return SandboxUnavailableError(f"{_NAMESPACES} ({line})")
    return SandboxUnavailableError(f"an isolated Python did not start: {line}")


def disk_full_message(folder: Path) -> str:
    """Return a message if the folder's disk is full, otherwise an empty text."""
    found = os.statvfs(folder)
    has_room = found.f_bavail * found.f_frsize >= _FULL_BYTES and (found.f_favail or not found.f_files)
    return "" if has_room else _DISK_FULL


@contextmanager
def translate_os_errors() -> Generator[None]:
    """Turn system errors that are not the program's fault into `SandboxUnavailableError`."""
    try:
        yield
    except OSError as error:
        message = _MESSAGES.get(error.errno or 0)
        if message is None:
            raise
        max_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        name = errno.errorcode[error.errno or 0]
        raise SandboxUnavailableError(message.format(name=name, most=max_files)) from error


@contextmanager
def translate_limit_errors(limits: ExecutionLimits) -> Generator[None]:
    """Turn the kernel's refusal of a program's limits into `SandboxUnavailableError`."""
    try:
        yield
    except (FileNotFoundError, ProcessLookupError):
        # The process or its group is gone, so the limits are not the reason.
        raise
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "an unknown error")
        memory = f"{limits.memory_bytes // MIB} MiB of memory, {limits.processes} processes"
        message = f"the kernel refuses the limits of the program ({name}): {memory}, {limits.open_files} open files"
        raise SandboxUnavailableError(f"{message}; set smaller ones in execution.limits") from error
