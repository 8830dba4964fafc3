"""Reads and validates the profile of a Docker sandbox.

A profile may come with a bundle from another author, so its options can only restrict a container, never extend it.
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
from timeloom.ports.sandbox import MAX_LIMIT, MIB, ExecutionLimits

DEFAULT_IMAGE: Final = "py-code-exec:latest"
LABEL_PREFIX: Final = "timeloom."
"""Prefix of our labels, by which we recognize the containers to remove."""

_NETWORK_MODE: Final = re.compile(r"(none|host|bridge|[A-Za-z0-9][A-Za-z0-9_.-]{0,63})")
_SIZE: Final = re.compile(r"([0-9]{1,15})([bkmg]?)b?", re.IGNORECASE)
_UNITS: Final[Mapping[str, int]] = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_ULIMITS: Final = ("core", "cpu", "data", "fsize", "memlock", "msgqueue", "nofile", "nproc", "stack")
_LONG: Final = "--"


N = TypeVar("N", int, float)


class ProfileError(CodedError):
    """An invalid value in a profile; the message says which values are valid."""

    def __init__(self, message: str) -> None:
        super().__init__("setting_invalid", message)


class DockerProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a Docker sandbox."""

    socket: str = ""
    """The engine's socket, as a path or `unix://` address; by default `DOCKER_HOST`, then `/var/run/docker.sock`."""

    image: str = DEFAULT_IMAGE

    container_strategy: Literal["split", "combined"] = "split"
    """`split`: a container holds only the program. `combined`: it also holds a supervisor of timeloom."""

    network_mode: str = "none"
    """The network of a combined container's supervisor. A program never has a network."""

    cpus: float | str | None = None
    memory: int | str | None = None
    """In bytes, or in the notation of the engines: `512m`, `2g`."""

    pids: int | None = None
    extra_args: tuple[str, ...] = ()
    """Further limits in the notation of `docker run`; see `ALLOWED_ARGS`."""

    runs_dir: Path | None = None
    """Folder for the files of executions; by default a temporary folder of this user."""

    preload: tuple[str, ...] = ("numpy", "pandas", "matplotlib")
    """Libraries that a waiting interpreter has loaded, if the image has them."""

    warm: int = 0
    """Number of containers that wait for a program; 0 starts each on demand."""

    warm_limits: ExecutionLimits = ExecutionLimits()
    """Limits of the waiting containers; a program with other limits gets a new container."""

    tmp_bytes: int = 64 * MIB
    """Capacity of `/tmp`, and also of `/dev/shm`; both are in memory."""

    grace_s: float = 0.5
    """Seconds between SIGTERM and SIGKILL for a program that ran too long."""

    start_s: float = 60.0
    """Seconds within which the interpreter of a container must be ready."""

    def socket_path(self) -> Path:
        """Return the engine's socket; it must be local, because folders are shared with the containers."""
        address = self.socket or os.environ.get("DOCKER_HOST", "") or "/var/run/docker.sock"
        if address.startswith("unix://"):
            address = address.removeprefix("unix://")
        if not address.startswith("/"):
            raise ProfileError(f"the engine's socket must be a path or unix:// and a path, got {address!r}")
        return Path(address)

    def root(self) -> Path:
        """Return the folder that contains the folders of all executions."""
        return self.runs_dir or Path(tempfile.gettempdir()) / f"timeloom-docker-{os.geteuid()}"


class ProfileLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a profile: a container gets the smaller of these and the limits of its program."""

    cpus: float | None = None
    memory_bytes: int | None = None
    memory_swap_bytes: int | None = None
    shm_bytes: int | None = None
    cpu_shares: int | None = None
    pids: int | None = None
    ulimits: Mapping[str, int] = {}
    labels: Mapping[str, str] = {}


def read_limits(profile: DockerProfile) -> ProfileLimits:
    """Return the limits from the fields and arguments of the profile; raise `ProfileError` if one is invalid."""
    if not _NETWORK_MODE.fullmatch(profile.network_mode):
        raise ProfileError(f"network_mode must be none, host, bridge or a network name, got {profile.network_mode!r}")
    arguments: dict[str, list[str]] = {}
    for name, value in _parse_arguments(profile.extra_args):
        arguments.setdefault(name, []).append(value)
    sizes = {name: _least([read_size(text) for text in arguments.get(name, ())]) for name in _SIZES}
    own_memory = None if profile.memory is None else read_size(profile.memory)
    own_cpus = None if profile.cpus is None else _parse_cpus(profile.cpus)
    return ProfileLimits(
        cpus=_least([own_cpus, *map(_parse_cpus, arguments.get("--cpus", ()))]),
        memory_bytes=_least([own_memory, sizes["--memory"]]),
        memory_swap_bytes=sizes["--memory-swap"],
        shm_bytes=sizes["--shm-size"],
        cpu_shares=_least([_parse_count("--cpu-shares", text) for text in arguments.get("--cpu-shares", ())]),
        pids=_least(
            [profile.pids, *(_parse_count("--pids-limit", text) for text in arguments.get("--pids-limit", ()))]
        ),
        ulimits=_parse_ulimits(arguments.get("--ulimit", ())),
        labels=_parse_labels(arguments.get("--label", ())),
    )


_SIZES: Final = ("--memory", "--memory-swap", "--shm-size")
ALLOWED_ARGS: Final = (*_SIZES, "--cpus", "--cpu-shares", "--pids-limit", "--ulimit", "--label")
"""Arguments of `docker run` that a profile may contain; each takes a value."""

_SHORT: Final[Mapping[str, str]] = {"-m": "--memory", "-c": "--cpu-shares", "-l": "--label"}


def read_size(size: int | str) -> int:
    """Return a number of bytes from a number or from the notation of the engines: `512m`, `2g`."""
    match = _SIZE.fullmatch(str(size).strip())
    found = int(match[1]) * _UNITS[match[2].lower()] if match else 0
    if not 0 < found <= MAX_LIMIT:
        raise ProfileError(f"a size must be a number of bytes, or use a unit such as 512m or 2g, got {size!r}")
    return found


def _parse_arguments(arguments: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the arguments as names and values; accepts `--name value` and `--name=value`."""
    found: list[tuple[str, str]] = []
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        name = _SHORT.get(name, name)
        if name not in ALLOWED_ARGS:
            raise ProfileError(f"{name!r} is not allowed in extra_args; allowed are {', '.join(ALLOWED_ARGS)}")
        if not equals:
            if not rest or rest[0].startswith(_LONG):
                raise ProfileError(f"{name} needs a value in extra_args")
            value = rest.pop(0)
        found.append((name, value))
    return found


def _parse_cpus(text: float | str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.01 <= value <= 4096:
        raise ProfileError(f"cpus must be a number from 0.01 to 4096, such as 1.5, got {text!r}")
    return value


def _parse_count(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
        raise ProfileError(f"{name} takes a number greater than 0, got {text!r}")
    return int(text)


def _parse_ulimits(texts: list[str] | tuple[str, ...]) -> dict[str, int]:
    """Return the smaller of soft and hard limit by name, because a program can raise its soft limit."""
    found: dict[str, int] = {}
    for text in texts:
        match = re.fullmatch(r"([a-z]{1,12})=([0-9]{1,15})(?::([0-9]{1,15}))?", text)
        if match is None or match[1] not in _ULIMITS:
            raise ProfileError(f"--ulimit takes NAME=NUMBER with a name of {', '.join(_ULIMITS)}; got {text!r}")
        value = min(int(number) for number in match.groups()[1:] if number)
        found[match[1]] = min(found.get(match[1], value), value)
    return found


def _parse_labels(texts: list[str] | tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name or name.startswith(LABEL_PREFIX):
            raise ProfileError(f"--label takes NAME=VALUE with a name that does not begin with {LABEL_PREFIX!r}")
        found[name] = value
    return found


def _least(values: list[N | None]) -> N | None:
    return min((value for value in values if value is not None), default=None)
