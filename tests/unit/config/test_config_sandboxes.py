"""Which sandbox the settings name."""

import pytest

from tests.harness.config import resolve_settings
from timeloom.config.errors import ConfigError
from timeloom.config.sandboxes import apply_profile, open_sandbox

PROFILES = """
[execution.runtime]
profile = "{profile}"
image = "own:1"

[execution.runtime.profiles.docker]
mode = "docker"
container_strategy = "combined"
cpus = "1.5"
memory = "2g"
extra_args = ["--pids-limit", "256"]

[execution.runtime.profiles.far]
mode = "fargate"
cluster = "c"
task_definition = "exec-task"
bucket = "b"
subnets = ["s-1"]
"""


@pytest.mark.parametrize(("profile", "name"), [("", "local"), ("docker", "docker"), ("far", "fargate")])
def test_the_profile_that_is_named_says_where_programs_run(profile: str, name: str) -> None:
    assert open_sandbox(resolve_settings(PROFILES.format(profile=profile)).execution).name == name


def test_what_a_profile_leaves_out_is_as_it_is_for_all() -> None:
    runtime = apply_profile(resolve_settings(PROFILES.format(profile="docker")).execution.runtime)
    assert (runtime.image, runtime.cpus, runtime.extra_args) == ("own:1", "1.5", ("--pids-limit", "256"))


def test_a_profile_that_nobody_described_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="one of the profiles: docker, far"):
        open_sandbox(resolve_settings(PROFILES.format(profile="dokcer")).execution)
