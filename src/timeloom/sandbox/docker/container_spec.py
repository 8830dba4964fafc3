"""Builds the container description that is sent to the engine for one execution."""

import resource
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

import msgspec

from timeloom.ports.sandbox import MIB, ExecutionLimits
from timeloom.sandbox.docker.profile import DockerProfile, ProfileLimits
from timeloom.sandbox.docker.users import AccountFiles, ContainerUsers
from timeloom.sandbox.folders.run_folder import RunFolder

WORKSPACE: Final = "/workspace"
SOCKET_NAME: Final = "door"
"""File name of the broker socket in its folder."""

TMP: Final = "/tmp"
SHM: Final = "/dev/shm"
IN_MEMORY: Final = (TMP, SHM)
"""The in-memory file systems that a program can write to."""

_RELAY_FOLDER: Final = "/workspace/relay"
_HIDDEN: Final = ("/sys",)
"""Folders that no program needs; the engine shows them unless another mount covers them."""

_OWN_PROCESSES: Final = 1
_PODMAN_TMPFS: Final = ("/run", "/var")
"""Folders where Podman mounts writable in-memory file systems, unless something is mounted there."""

_USER_PROCESSES: Final = 32_768
_TMP_FILES: Final = 10_000
_NANO: Final = 1_000_000_000
_LEAST_MEMORY_BYTES: Final = 16 * MIB
_ADDRESS_SPACE_BYTES: Final = 1024 * MIB
"""Address space of a process beyond its memory limit: libraries reserve much that they never use."""

_MASKED: Final = (
    # The default list of the engines, which this list replaces.
    *("/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats"),
    # Files that reveal something about the machine.
    *("/proc/cgroups", "/proc/cmdline", "/proc/config.gz", "/proc/diskstats", "/proc/iomem", "/proc/ioports"),
    *("/proc/kallsyms", "/proc/key-users", "/proc/kmsg", "/proc/modules", "/proc/partitions", "/proc/sysrq-trigger"),
)
"""Paths that read as empty; those that the machine lacks are ignored."""

_NO_NEW_PRIVILEGES: Final = ("no-new-privileges:true",)
_START_CAPABILITIES: Final = ("SETUID", "SETGID", "SETPCAP", "SYS_ADMIN")
"""Capabilities with which a combined container's supervisor starts the interpreter; it drops them afterwards."""


class Ulimit(msgspec.Struct, frozen=True, rename="pascal"):
    """An rlimit of each process."""

    name: str
    soft: int
    hard: int


class BindOptions(msgspec.Struct, frozen=True, rename="pascal"):
    """Options of a bind mount."""

    propagation: str = "rprivate"


class Mount(msgspec.Struct, frozen=True, rename="pascal"):
    """A host folder that is mounted into the container."""

    source: str
    target: str
    read_only: bool = False
    type: str = "bind"
    bind_options: BindOptions = BindOptions()


class LogConfig(msgspec.Struct, frozen=True, rename="pascal"):
    """Log driver of the container: none, because a program could fill the disk with its output."""

    type: str = "none"


class HostConfig(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """The resources of the host that the container gets."""

    network_mode: str
    mounts: list[Mount]
    tmpfs: Mapping[str, str]
    memory: int
    memory_swap: int
    pids_limit: int
    ulimits: list[Ulimit]
    security_opt: tuple[str, ...]
    cap_add: tuple[str, ...] = ()
    nano_cpus: int = 0
    cpu_shares: int = 0
    cap_drop: tuple[str, ...] = ("ALL",)
    readonly_rootfs: bool = True
    ipc_mode: str = "private"
    masked_paths: tuple[str, ...] = _MASKED
    log_config: LogConfig = LogConfig()


class ContainerSpec(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """The body of the request that creates a container: its command, user and host resources."""

    image: str
    user: str
    cmd: list[str]
    labels: Mapping[str, str]
    host_config: HostConfig
    network_disabled: bool
    env: tuple[str, ...] = ()
    hostname: str = "sandbox"
    working_dir: str = "/"
    open_stdin: bool = True
    # Its standard input ends when the attached client, the supervisor, disconnects.
    stdin_once: bool = True
    attach_stdin: bool = True
    attach_stdout: bool = True
    attach_stderr: bool = True
    tty: bool = False


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """Everything that determines a container, except the execution that it is for."""

    profile: DockerProfile
    profile_limits: ProfileLimits
    limits: ExecutionLimits
    users: ContainerUsers
    accounts: AccountFiles
    is_podman: bool = False
    """Whether the engine is Podman, which needs some options in another form and cannot limit the files of a tmpfs."""

    @property
    def is_combined(self) -> bool:
        return self.profile.container_strategy == "combined"

    def peer_uids(self) -> frozenset[int]:
        """Return the host user ids that may connect to the broker socket."""
        return frozenset({self.users.relay_uid if self.is_combined else self.users.program.uid})


def describe_container(
    plan: ContainerPlan, run: RunFolder, labels: Mapping[str, str], *, preload: bool
) -> ContainerSpec:
    """Return the container description for an execution in these folders."""
    program = plan.users.program
    return ContainerSpec(
        image=plan.profile.image,
        user="0:0" if plan.is_combined else f"{program.uid}:{program.gid}",
        cmd=_command(plan, preload=preload),
        labels={**plan.profile_limits.labels, **labels},
        host_config=_host_config(plan, run),
        network_disabled=_network_mode(plan) == "none",
    )


def can_serve(limits: ExecutionLimits, other: ExecutionLimits) -> bool:
    """Return whether a container created for one set of limits can serve the other; the watchdog enforces the rest."""
    return _fixed_limits(limits) == _fixed_limits(other)


def _fixed_limits(limits: ExecutionLimits) -> tuple[int, ...]:
    return (limits.memory_bytes, limits.processes, limits.open_files, limits.file_bytes, ceil(limits.cpu_s))


def _command(plan: ContainerPlan, *, preload: bool) -> list[str]:
    """Return the arguments of `guest/launch.py`."""
    libraries = ",".join(plan.profile.preload) if preload else ""
    address_space = str(_memory_bytes(plan) + _ADDRESS_SPACE_BYTES)
    door = f"{WORKSPACE}/sock/{SOCKET_NAME}"
    if not plan.is_combined:
        return [door, libraries or "-", address_space, "-"]
    program = plan.users.program
    relay = f"{door}:{program.uid}:{program.gid}:{plan.users.relay_uid}"
    return [f"{_RELAY_FOLDER}/{SOCKET_NAME}", libraries or "-", address_space, relay]


def _network_mode(plan: ContainerPlan) -> str:
    return plan.profile.network_mode if plan.is_combined else "none"


def _memory_bytes(plan: ContainerPlan) -> int:
    return max(_least(plan.limits.memory_bytes, plan.profile_limits.memory_bytes), _LEAST_MEMORY_BYTES)


def _host_config(plan: ContainerPlan, run: RunFolder) -> HostConfig:
    limits, profile_limits = plan.limits, plan.profile_limits
    memory = _memory_bytes(plan)
    return HostConfig(
        network_mode=_network_mode(plan),
        mounts=[
            Mount(str(run.work), f"{WORKSPACE}/work"),
            Mount(str(run.out), f"{WORKSPACE}/out"),
            Mount(str(run.sock), f"{WORKSPACE}/sock", read_only=True),
            Mount(str(plan.accounts.passwd), "/etc/passwd", read_only=True),
            Mount(str(plan.accounts.group), "/etc/group", read_only=True),
        ],
        tmpfs=_tmpfs(plan),
        memory=memory,
        memory_swap=max(memory, profile_limits.memory_swap_bytes or 0),
        pids_limit=_least(limits.processes, profile_limits.pids) + _OWN_PROCESSES,
        ulimits=[Ulimit(name, value, value) for name, value in sorted(_ulimits(plan).items())],
        cap_add=_START_CAPABILITIES if plan.is_combined else (),
        nano_cpus=round((profile_limits.cpus or 0) * _NANO),
        cpu_shares=profile_limits.cpu_shares or 0,
        security_opt=(*_NO_NEW_PRIVILEGES, *([f"mask={':'.join(_MASKED)}"] if plan.is_podman else [])),
    )


def _tmpfs(plan: ContainerPlan) -> dict[str, str]:
    size = plan.profile.tmp_bytes
    options = "rw,nosuid,nodev,mode=1777" + (f",nr_inodes={_TMP_FILES}" if not plan.is_podman else "")
    mounts = {
        TMP: f"{options},size={size}",
        SHM: f"{options},size={_least(size, plan.profile_limits.shm_bytes)}",
    }
    mounts.update(
        dict.fromkeys(_HIDDEN + (_PODMAN_TMPFS if plan.is_podman else ()), "ro,nosuid,nodev,noexec,mode=0700,size=4096")
    )
    if plan.is_combined:
        mounts[_RELAY_FOLDER] = "rw,nosuid,nodev,noexec,mode=0711,size=65536"
    return mounts


def _ulimits(plan: ContainerPlan) -> dict[str, int]:
    limits = plan.limits
    ours = {
        "core": 0,
        # Per process; the watchdog limits the sum over all processes.
        "cpu": ceil(limits.cpu_s) + 1,
        "fsize": limits.file_bytes,
        "memlock": 64 * 1024,
        "msgqueue": 0,
        "nofile": limits.open_files,
        "nproc": _user_process_limit(),
    }
    return {
        name: _least(ours.get(name), plan.profile_limits.ulimits.get(name))
        for name in {*ours, *plan.profile_limits.ulimits}
    }


def _user_process_limit() -> int:
    """Return a high limit, since it counts all containers; without one, Podman requests more than it may."""
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    return _USER_PROCESSES if most == resource.RLIM_INFINITY else min(most, _USER_PROCESSES)


def _least(*values: int | None) -> int:
    return min(value for value in values if value is not None)
