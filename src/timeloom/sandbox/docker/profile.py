"""The profile of a container sandbox: what its settings say, read and checked.

A profile may come with a bundle that somebody else wrote, so what it can say makes a container smaller and never more
capable.
"""

import math
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from timeloom.core.codes import CodedError
from timeloom.ports.sandbox import MIB, Limits

DEFAULT_IMAGE: Final = "py-code-exec:latest"
SANDBOX_ID: Final = 1001
"""The user and the group of the programs where we are root; else they are our own."""

LABEL_PREFIX: Final = "timeloom."
"""Labels that begin so are ours: by them we know which containers to remove."""

_NETWORK_MODE: Final = re.compile(r"(none|host|bridge|[A-Za-z0-9][A-Za-z0-9_.-]{0,63})")
_SIZE: Final = re.compile(r"([0-9]{1,15})([bkmg]?)b?", re.IGNORECASE)
_UNITS: Final[Mapping[str, int]] = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_ULIMITS: Final = ("core", "cpu", "data", "fsize", "memlock", "msgqueue", "nofile", "nproc", "stack")
_LONG: Final = "--"


N = TypeVar("N", int, float)


class ProfileError(CodedError):
    """Something in a profile that cannot be taken; the message says what can."""

    def __init__(self, message: str) -> None:
        super().__init__("setting_invalid", message)


class DockerProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What a container sandbox is made with."""

    socket: str = ""
    """The engine's socket, as a path or as `unix://` address; `DOCKER_HOST`, then Docker's own, where none is named."""

    image: str = DEFAULT_IMAGE

    container_strategy: Literal["split", "combined"] = "split"
    """`split`: a container holds the program and nothing else. `combined`: it also holds a supervisor of ours."""

    network_mode: str = "none"
    """The network of a combined container's supervisor. A program never has one."""

    cpus: float | str | None = None
    memory: int | str | None = None
    """In bytes, or as engines write it: `512m`, `2g`."""

    pids: int | None = None
    extra_args: tuple[str, ...] = ()
    """Further limits as they are written for `docker run`; see `ALLOWED_ARGS`."""

    runs_dir: Path | None = None
    """Where the folders of executions are made; a temporary one of this user where none is named."""

    preload: tuple[str, ...] = ("numpy", "pandas", "matplotlib")
    """Libraries that a waiting interpreter has loaded, if the image has them."""

    warm: int = 0
    """Containers that wait for a program; 0 starts each when needed."""

    warm_limits: Limits = Limits()
    """The limits that waiting containers are made for; programs with others start one of their own."""

    tmp_bytes: int = 64 * MIB
    """What `/tmp`, and `/dev/shm` as well, can hold; both are in memory."""

    grace_s: float = 0.5
    """Between asking a program that took too long to end, and ending it."""

    start_s: float = 60.0
    """How long a container may take until its interpreter waits for a program."""

    def socket_path(self) -> Path:
        """Where the engine listens; only sockets of this machine, because folders are shared with the containers."""
        address = self.socket or os.environ.get("DOCKER_HOST", "") or "/var/run/docker.sock"
        if address.startswith("unix://"):
            address = address.removeprefix("unix://")
        if not address.startswith("/"):
            raise ProfileError(f"the engine's socket must be a path or unix:// and a path, got {address!r}")
        return Path(address)

    def root(self) -> Path:
        """The folder under which executions have theirs."""
        return self.runs_dir or Path(tempfile.gettempdir()) / f"timeloom-docker-{os.geteuid()}"


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a profile: a container gets the smaller of these and of what its program may use."""

    cpus: float | None = None
    memory_bytes: int | None = None
    memory_swap_bytes: int | None = None
    shm_bytes: int | None = None
    cpu_shares: int | None = None
    pids: int | None = None
    ulimits: Mapping[str, int] = {}
    labels: Mapping[str, str] = {}


def read_caps(profile: DockerProfile) -> Caps:
    """The limits that the profile sets, by its own fields and by its arguments; raises `ProfileError`."""
    if not _NETWORK_MODE.fullmatch(profile.network_mode):
        raise ProfileError(f"network_mode is none, host, bridge or the name of a network, got {profile.network_mode!r}")
    given: dict[str, list[str]] = {}
    for name, value in _pairs(profile.extra_args):
        given.setdefault(name, []).append(value)
    sizes = {name: _least([read_size(text) for text in given.get(name, ())]) for name in _SIZES}
    own_memory = None if profile.memory is None else read_size(profile.memory)
    own_cpus = None if profile.cpus is None else _cpus(profile.cpus)
    return Caps(
        cpus=_least([own_cpus, *map(_cpus, given.get("--cpus", ()))]),
        memory_bytes=_least([own_memory, sizes["--memory"]]),
        memory_swap_bytes=sizes["--memory-swap"],
        shm_bytes=sizes["--shm-size"],
        cpu_shares=_least([_count("--cpu-shares", text) for text in given.get("--cpu-shares", ())]),
        pids=_least([profile.pids, *(_count("--pids-limit", text) for text in given.get("--pids-limit", ()))]),
        ulimits=_ulimits(given.get("--ulimit", ())),
        labels=_labels(given.get("--label", ())),
    )


_SIZES: Final = ("--memory", "--memory-swap", "--shm-size")
ALLOWED_ARGS: Final = (*_SIZES, "--cpus", "--cpu-shares", "--pids-limit", "--ulimit", "--label")
"""Arguments of `docker run` that a profile may carry; each takes a value."""

_SHORT: Final[Mapping[str, str]] = {"-m": "--memory", "-c": "--cpu-shares", "-l": "--label"}


def read_size(size: int | str) -> int:
    """A number of bytes, also as engines write it: `512m`, `2g`."""
    match = _SIZE.fullmatch(str(size).strip())
    if match is None or int(match[1]) == 0:
        raise ProfileError(f"a size is a number of bytes or such as 512m or 2g, got {size!r}")
    return int(match[1]) * _UNITS[match[2].lower()]


def _pairs(arguments: tuple[str, ...]) -> list[tuple[str, str]]:
    """The arguments as names and values; `--name value` and `--name=value` mean the same."""
    found: list[tuple[str, str]] = []
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        name = _SHORT.get(name, name)
        if name not in ALLOWED_ARGS:
            raise ProfileError(f"{name!r} is not taken in extra_args, only {', '.join(ALLOWED_ARGS)}")
        if not equals:
            if not rest or rest[0].startswith(_LONG):
                raise ProfileError(f"{name} needs a value in extra_args")
            value = rest.pop(0)
        found.append((name, value))
    return found


def _cpus(text: float | str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.01 <= value <= 4096:
        raise ProfileError(f"cpus is a number such as 1.5, got {text!r}")
    return value


def _count(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
        raise ProfileError(f"{name} takes a number greater than 0, got {text!r}")
    return int(text)


def _ulimits(texts: list[str] | tuple[str, ...]) -> dict[str, int]:
    """The smaller of soft and hard limit by name, because a program could raise itself from one to the other."""
    found: dict[str, int] = {}
    for text in texts:
        match = re.fullmatch(r"([a-z]{1,12})=([0-9]{1,15})(?::([0-9]{1,15}))?", text)
        if match is None or match[1] not in _ULIMITS:
            raise ProfileError(f"--ulimit takes NAME=NUMBER with a name of {', '.join(_ULIMITS)}; got {text!r}")
        value = min(int(number) for number in match.groups()[1:] if number)
        found[match[1]] = min(found.get(match[1], value), value)
    return found


def _labels(texts: list[str] | tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name or name.startswith(LABEL_PREFIX):
            raise ProfileError(f"--label takes NAME=VALUE with a name that does not begin with {LABEL_PREFIX!r}")
        found[name] = value
    return found


def _least(values: list[N | None]) -> N | None:
    return min((value for value in values if value is not None), default=None)
