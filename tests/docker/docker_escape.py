"""A pytest plug-in (`-p docker_escape`) that runs the escape suite against containers."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from tests.docker.docker_harness import STRATEGIES, Strategy, profile
from timeloom.ports.sandbox import Sandbox
from timeloom.sandbox.docker import DockerSandbox

BACKENDS: dict[str, Callable[[Path], Sandbox]] = import_module("escape_stage").BACKENDS


def sandbox(strategy: Strategy) -> Callable[[Path], Sandbox]:
    return lambda folder: DockerSandbox(profile(folder, strategy))


BACKENDS.clear()
BACKENDS.update({f"docker-{strategy}": sandbox(strategy) for strategy in STRATEGIES})
