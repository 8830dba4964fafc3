"""The container of one execution, as it is described to the engine."""

import resource
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

import msgspec

from timeloom.ports.sandbox import MIB, Limits
from timeloom.sandbox.docker.profile import Caps, DockerProfile
from timeloom.sandbox.folders.run_folder import Owner, RunFolder

WORKSPACE: Final = "/workspace"
DOOR: Final = "door"
"""The name of the door's socket in its folder."""

TMP: Final = "/tmp"
SHM: Final = "/dev/shm"
IN_MEMORY: Final = (TMP, SHM)
"""The file systems in memory that a program can write to."""

RELAY_ID: Final = 1002
"""The user and the group of a combined container's supervisor, once it has started the interpreter."""

_RELAY_FOLDER: Final = "/workspace/relay"
_HIDDEN: Final = ("/sys",)
"""What of a machine no program needs to see; an engine shows it unless something else is in its place."""

_OWN_PROCESSES: Final = 1
_PODMANS: Final = ("/run", "/var")
"""Where Podman puts file systems in memory for everybody to write to, unless there are some."""

_USER_PROCESSES: Final = 32_768
_TMP_FILES: Final = 10_000
_NANO: Final = 1_000_000_000
_LEAST_MEMORY_BYTES: Final = 16 * MIB
_ADDRESS_SPACE_BYTES: Final = 1024 * MIB
"""What a process may address beyond the memory it may have: libraries reserve much that they never use."""

_MASKED: Final = (
    # What engines mask by themselves, of which this list takes the place.
    *("/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats"),
    # What says something about the machine.
    *("/proc/cgroups", "/proc/cmdline", "/proc/config.gz", "/proc/diskstats", "/proc/iomem", "/proc/ioports"),
    *("/proc/kallsyms", "/proc/key-users", "/proc/kmsg", "/proc/modules", "/proc/partitions", "/proc/sysrq-trigger"),
)
"""What reads as empty; those that a machine does not have are passed over."""

_NO_NEW_PRIVILEGES: Final = ("no-new-privileges:true",)
_STARTERS: Final = ("SETUID", "SETGID", "SETPCAP", "SYS_ADMIN")
"""What a combined container's supervisor starts the interpreter with; it has none of them afterwards."""


class Ulimit(msgspec.Struct, frozen=True, rename="pascal"):
    """A limit of each process."""

    name: str
    soft: int
    hard: int


class BindOptions(msgspec.Struct, frozen=True, rename="pascal"):
    """How a folder of the machine is shown."""

    propagation: str = "rprivate"


class Mount(msgspec.Struct, frozen=True, rename="pascal"):
    """A folder of the machine that the container sees."""

    source: str
    target: str
    read_only: bool = False
    type: str = "bind"
    bind_options: BindOptions = BindOptions()


class LogConfig(msgspec.Struct, frozen=True, rename="pascal"):
    """Where the engine keeps what is printed: nowhere, for a program could fill the disk with it."""

    type: str = "none"


class HostConfig(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """What the container has of its machine."""

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


class Container(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """What runs in the container, and as whom."""

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
    # The end of whoever attached to it, which is us, is the end of its standard input.
    stdin_once: bool = True
    attach_stdin: bool = True
    attach_stdout: bool = True
    attach_stderr: bool = True
    tty: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a container depends on, besides whom it is for."""

    profile: DockerProfile
    caps: Caps
    limits: Limits
    owner: Owner
    podman: bool = False
    """Whether the engine is Podman, which wants some things said otherwise and cannot limit the files of a tmpfs."""

    @property
    def combined(self) -> bool:
        return self.profile.container_strategy == "combined"

    def peers(self) -> frozenset[int]:
        """The users who may come to the door, as this machine counts them."""
        return frozenset({RELAY_ID if self.combined else self.owner.uid})


def describe(plan: Plan, run: RunFolder, labels: Mapping[str, str], *, preload: bool) -> Container:
    """The container of an execution in these folders."""
    user = f"{plan.owner.uid}:{plan.owner.gid}"
    return Container(
        image=plan.profile.image,
        user="0:0" if plan.combined else user,
        cmd=_command(plan, preload=preload),
        labels={**plan.caps.labels, **labels},
        host_config=_host_config(plan, run),
        network_disabled=_network_mode(plan) == "none",
    )


def fits(limits: Limits, other: Limits) -> bool:
    """Whether a container that was made for the one can serve the other; the rest is watched from outside."""
    return _fixed(limits) == _fixed(other)


def _fixed(limits: Limits) -> tuple[int, ...]:
    return (limits.memory_bytes, limits.processes, limits.open_files, limits.file_bytes, ceil(limits.cpu_s))


def _command(plan: Plan, *, preload: bool) -> list[str]:
    """What `guest/launch.py` is started with."""
    libraries = ",".join(plan.profile.preload) if preload else ""
    address_space = str(_memory_bytes(plan) + _ADDRESS_SPACE_BYTES)
    door = f"{WORKSPACE}/sock/{DOOR}"
    if not plan.combined:
        return [door, libraries or "-", address_space, "-"]
    relay = f"{door}:{plan.owner.uid}:{plan.owner.gid}:{RELAY_ID}"
    return [f"{_RELAY_FOLDER}/{DOOR}", libraries or "-", address_space, relay]


def _network_mode(plan: Plan) -> str:
    return plan.profile.network_mode if plan.combined else "none"


def _memory_bytes(plan: Plan) -> int:
    return max(_least(plan.limits.memory_bytes, plan.caps.memory_bytes), _LEAST_MEMORY_BYTES)


def _host_config(plan: Plan, run: RunFolder) -> HostConfig:
    limits, caps = plan.limits, plan.caps
    memory = _memory_bytes(plan)
    return HostConfig(
        network_mode=_network_mode(plan),
        mounts=[
            Mount(str(run.work), f"{WORKSPACE}/work"),
            Mount(str(run.out), f"{WORKSPACE}/out"),
            Mount(str(run.sock), f"{WORKSPACE}/sock", read_only=True),
        ],
        tmpfs=_tmpfs(plan),
        memory=memory,
        memory_swap=max(memory, caps.memory_swap_bytes or 0),
        pids_limit=_least(limits.processes, caps.pids) + _OWN_PROCESSES,
        ulimits=[Ulimit(name, value, value) for name, value in sorted(_ulimits(plan).items())],
        cap_add=_STARTERS if plan.combined else (),
        nano_cpus=round((caps.cpus or 0) * _NANO),
        cpu_shares=caps.cpu_shares or 0,
        security_opt=(*_NO_NEW_PRIVILEGES, *([f"mask={':'.join(_MASKED)}"] if plan.podman else [])),
    )


def _tmpfs(plan: Plan) -> dict[str, str]:
    size = plan.profile.tmp_bytes
    options = "rw,nosuid,nodev,mode=1777" + (f",nr_inodes={_TMP_FILES}" if not plan.podman else "")
    found = {
        TMP: f"{options},size={size}",
        SHM: f"{options},size={_least(size, plan.caps.shm_bytes)}",
    }
    found.update(
        dict.fromkeys(_HIDDEN + (_PODMANS if plan.podman else ()), "ro,nosuid,nodev,noexec,mode=0700,size=4096")
    )
    if plan.combined:
        found[_RELAY_FOLDER] = "rw,nosuid,nodev,noexec,mode=0711,size=65536"
    return found


def _ulimits(plan: Plan) -> dict[str, int]:
    limits = plan.limits
    ours = {
        "core": 0,
        # Of each process; the watchdog counts all of them together.
        "cpu": ceil(limits.cpu_s) + 1,
        "fsize": limits.file_bytes,
        "memlock": 64 * 1024,
        "msgqueue": 0,
        "nofile": limits.open_files,
        "nproc": _processes_of_a_user(),
    }
    return {name: _least(ours.get(name), plan.caps.ulimits.get(name)) for name in {*ours, *plan.caps.ulimits}}


def _processes_of_a_user() -> int:
    """Of all containers together, so it is high; without any, Podman asks for more than it may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    return _USER_PROCESSES if most == resource.RLIM_INFINITY else min(most, _USER_PROCESSES)


def _least(*values: int | None) -> int:
    return min(value for value in values if value is not None)
