"""A pytest plug-in (`-p tests.docker.docker_escape`) that runs the escape suite against containers."""

from collections.abc import Callable
from pathlib import Path

from tests.docker.docker_harness import STRATEGIES, Strategy, profile
from tests.escape.escape_harness import BACKENDS
from timeloom.ports.sandbox import Sandbox
from timeloom.sandbox.docker import DockerSandbox


def sandbox(strategy: Strategy) -> Callable[[Path], Sandbox]:
    return lambda folder: DockerSandbox(profile(folder, strategy))


BACKENDS.clear()
BACKENDS.update({f"docker-{strategy}": sandbox(strategy) for strategy in STRATEGIES})
