"""A task that really runs: the entrypoint as the first process of a container made by bubblewrap.

It has the properties of a task on Fargate: root with a container's usual capabilities, the task's network, a separate
file system and `/workspace`. A surrounding user namespace, invisible inside, maps the program's user to a unique user
of this machine: the kernel counts processes per user, and parallel tests use the same user.
"""

import os
import re
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETPCAP", "SETUID")
ENTRYPOINT = (sys.executable, "-m", "timeloom.sandbox.remote")
WAIT_AND_RUN = 'echo; read go; exec bwrap "$@" </dev/null >/dev/null'
INSIDE = 1001
OUTSIDE = 20_000 + os.getpid() % 20_000
"""The program's user in a container, and the user it is mapped to on this machine."""

CHILD = re.compile(rb'"child-pid": (\d+)')


def _rules(*lines: tuple[int, int, int, int]) -> bytes:
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


_ALLOW = (0x06, 0, 0, 0x7FFF_0000)
ALL_CALLS = _rules(_ALLOW)
NO_LANDLOCK = _rules((0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x0005_0000 | 38), _ALLOW)
"""Seccomp filters for a container; the second makes the kernel look as if it had no Landlock."""


@dataclass
class FakeContainer:
    """A container that runs until its entrypoint has ended."""

    process: "subprocess.Popen[bytes]"
    first_pid: int
    """Its first process, by its pid on the host."""

    stderr_lines: list[bytes] = field(default_factory=list[bytes])
    _reader: threading.Thread | None = None

    @classmethod
    def start(
        cls,
        env: Mapping[str, str],
        folder: Path,
        command: tuple[str, ...] = ENTRYPOINT,
        *,
        landlock: bool = True,
    ) -> "FakeContainer":
        info, theirs = os.pipe()
        rules, filled = os.pipe()
        os.write(filled, ALL_CALLS if landlock else NO_LANDLOCK)
        os.close(filled)
        given = (*_arguments(folder), "--info-fd", str(theirs), "--seccomp", str(rules))
        process = subprocess.Popen(
            ("unshare", "--user", "sh", "-c", WAIT_AND_RUN, "sh", *given, "--", *command),
            env={"PATH": "/usr/bin:/bin", **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(theirs, rules),
        )
        os.close(theirs)
        os.close(rules)
        _map_users(process)
        with os.fdopen(info, "rb") as file:
            found = CHILD.search(file.read())
        assert found is not None, process.communicate()[1]
        container = cls(process, int(found[1]))
        container._reader = threading.Thread(target=container._read_stderr, daemon=True)
        container._reader.start()
        return container

    def stop(self, grace_s: float) -> None:
        """Stop like ECS: SIGTERM, then SIGKILL after the grace period."""
        _signal(self.first_pid, signal.SIGTERM)
        try:
            self.process.wait(grace_s)
        except subprocess.TimeoutExpired:
            _signal(self.first_pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for the container and return its exit code."""
        code = self.process.wait()
        assert self._reader is not None
        self._reader.join()
        return code

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            self.stderr_lines.extend(stream)


def _map_users(process: "subprocess.Popen[bytes]") -> None:
    """Write the user mapping once the namespace exists, then let the container start."""
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        process.stdout.readline()
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{process.pid}/{name}").write_text(f"0 0 1\n{INSIDE} {OUTSIDE} 1\n")
        process.stdin.write(b"\n")


def _arguments(folder: Path) -> list[str]:
    given = ["--die-with-parent", "--unshare-pid", "--as-pid-1", "--new-session", "--cap-drop", "ALL"]
    for capability in CAPABILITIES:
        given += ["--cap-add", f"CAP_{capability}"]
    for name in ("/bin", "/sbin", "/lib", "/lib64"):
        if Path(name).is_symlink():
            given += ["--symlink", str(Path(name).readlink()), name]
    # Mounted before the binds, which may be below `/tmp` here.
    given += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/tmp"]
    given += ["--perms", "1777", "--size", str(64 * 1024 * 1024), "--tmpfs", "/dev/shm"]
    binds = [Path("/usr"), Path("/etc"), Path(sys.prefix), Path(sys.base_prefix), ROOT / "src"]
    # bubblewrap creates missing parent folders for root only, so they are created first.
    for parent in sorted({parent for bind in binds for parent in bind.parents} - {Path("/"), Path("/tmp")}):
        given += ["--perms", "0755", "--dir", str(parent)]
    for bind in binds:
        given += ["--ro-bind", str(bind), str(bind)]
    return [*given, "--bind", str(folder), "/workspace", "--chdir", "/"]


def _signal(pid: int, by: signal.Signals) -> None:
    try:
        os.kill(pid, by)
    except ProcessLookupError:
        return
