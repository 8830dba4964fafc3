"""Fixtures of the Fargate tests: one AWS per process, and a new bucket and ECS per test."""

import itertools
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fargate.fake_aws import CREDENTIALS, FakeAws
from tests.fargate.fargate_harness import FargateHarness

_numbers = itertools.count()


@pytest.fixture(scope="session")
def one_aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeAws]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with FakeAws(tmp_path_factory.mktemp("tasks")) as aws:
        yield aws


@pytest.fixture
def stage(one_aws: FakeAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FargateHarness:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    one_aws.reset(tmp_path / "tasks")
    return FargateHarness.create(one_aws, tmp_path, f"executions-{next(_numbers)}")
