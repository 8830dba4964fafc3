"""Session fixtures of the crash tests: a process to fork, and each scene without a kill."""

from collections.abc import Generator, Mapping

import pytest

from tests.crash.checker import find_problems
from tests.crash.crash_scenes import SCENES
from tests.crash.victim_pool import BaselineRun, ForkServer, KilledConversation, start_fork_server


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Generator[ForkServer]:
    with start_fork_server(tmp_path_factory.mktemp("zygote")) as process:
        yield process


@pytest.fixture(scope="session")
def undisturbed(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, BaselineRun]:
    """Return the result of each scene without a kill."""
    folder = tmp_path_factory.mktemp("undisturbed")
    found: dict[str, BaselineRun] = {}
    for scene in SCENES:
        history = KilledConversation(forks, folder / scene, scene)
        evidence = history.run_to_end()
        assert find_problems(evidence, evidence) == []
        found[scene] = BaselineRun(evidence, history.reached_boundaries(), history.longest_s)
    return found
