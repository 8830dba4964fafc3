"""Which sandbox the settings name."""

import pytest

from tests.harness.config import resolve_settings
from timeloom.config.errors import ConfigError
from timeloom.config.sandboxes import apply_profile, open_sandbox
from timeloom.config.sections.execution import ExecutionLimitSettings
from timeloom.core.codes import CodedError
from timeloom.ports.sandbox import ExecutionLimits
from timeloom.sandbox.docker.profile import DockerProfile, ProfileError, read_limits

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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("memory_mb", value) for value in ("10000000", "1", "0", "-5", "1e400", "nan", "9" * 30)),
        *(("processes", value) for value in ("4194304", "0")),
        *(("open_files", value) for value in ("1000001", "1")),
        *((name, "0") for name in ExecutionLimitSettings.__struct_fields__),
        *((name, "9" * 30) for name in ExecutionLimitSettings.__struct_fields__),
    ],
)
def test_a_limit_out_of_range_is_refused_with_a_sentence(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"execution\.limits\.{name}"):
        resolve_settings(f"[execution.limits]\n{name} = {value}\n")
    variable = f"TIMELOOM_EXECUTION_LIMITS_{name.upper()}"
    with pytest.raises(ConfigError, match=f"{variable} is .*; expected"):
        resolve_settings(**{variable: value})


@pytest.mark.parametrize("value", [-1, 2**63, 10**400, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["memory_bytes", "wall_s", "processes"])
def test_a_limit_that_no_kernel_has_is_refused_with_a_sentence(name: str, value: float) -> None:
    with pytest.raises(CodedError, match=f"the limit {name} is from 0 to") as refused:
        ExecutionLimits(**{name: value})  # pyright: ignore[reportArgumentType]
    assert refused.value.code == "setting_invalid"


@pytest.mark.parametrize("memory", ["9999999999g", "999999999999999g"])
def test_a_size_that_no_kernel_has_is_refused_with_a_sentence(memory: str) -> None:
    with pytest.raises(ProfileError, match="a size must be a number of bytes"):
        read_limits(DockerProfile(memory=memory))
