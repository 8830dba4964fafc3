"""Session fixtures of the crash tests: a process to fork, and each scene without a kill."""

from collections.abc import Generator, Mapping

import pytest

from tests.crash.checker import problems
from tests.crash.crash_scenes import SCENES
from tests.crash.victim_pool import History, Undisturbed, Zygote, zygote


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Generator[Zygote]:
    with zygote(tmp_path_factory.mktemp("zygote")) as process:
        yield process


@pytest.fixture(scope="session")
def undisturbed(forks: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Undisturbed]:
    """Return the result of each scene without a kill."""
    folder = tmp_path_factory.mktemp("undisturbed")
    found: dict[str, Undisturbed] = {}
    for scene in SCENES:
        history = History(forks, folder / scene, scene)
        evidence = history.play()
        assert problems(evidence, evidence) == []
        found[scene] = Undisturbed(evidence, history.passed(), history.life_s)
    return found
