"""A profile can only make containers smaller, never more capable."""

from pathlib import Path

import pytest

from timeloom.ports.sandbox import MIB
from timeloom.sandbox.docker import ALLOWED_ARGS, DockerProfile, DockerSandbox, ProfileError
from timeloom.sandbox.docker.profile import read_limits, read_size

HOSTILE = [
    "--privileged",
    "--privileged=true",
    "-v",
    "-v=/:/host",
    "--volume=/:/host",
    "--mount=type=bind,source=/,target=/host",
    "--cap-add=ALL",
    "--cap-add",
    "--network=host",
    "--net=host",
    "--pid=host",
    "--ipc=host",
    "--uts=host",
    "--userns=host",
    "--cgroupns=host",
    "--device=/dev/sda",
    "--device-cgroup-rule=a *:* rwm",
    "--security-opt=seccomp=unconfined",
    "--security-opt",
    "--user=0",
    "-u=0",
    "--env=A=B",
    "--env-file=/etc/passwd",
    "--entrypoint=/bin/sh",
    "--read-only=false",
    "--tmpfs=/x",
    "--volumes-from=other",
    "--group-add=0",
    "--runtime=other",
    "--oom-kill-disable",
    "--sysctl=kernel.x=1",
    "--restart=always",
    "--add-host=a:1",
    "--publish=80:80",
    "--gpus=all",
    "-it",
    "",
    "image",
    "--",
    "--CPUS=1",
]


@pytest.mark.parametrize("argument", HOSTILE)
def test_whatever_could_open_a_container_is_refused(argument: str) -> None:
    with pytest.raises(
        ProfileError, match=r"is not allowed in extra_args; allowed are --memory, .*--pids-limit"
    ) as caught:
        DockerSandbox(DockerProfile(extra_args=("--cpus", "1", argument, "1")))
    assert caught.value.code == "setting_invalid"


@pytest.mark.parametrize("name", ALLOWED_ARGS)
def test_an_argument_without_its_value_is_refused(name: str) -> None:
    for arguments in ((name,), (name, "--cpus", "1")):
        with pytest.raises(ProfileError, match="needs a value"):
            read_limits(DockerProfile(extra_args=arguments))


@pytest.mark.parametrize(
    "argument",
    [
        "--pids-limit=-1",
        "--pids-limit=0",
        "--pids-limit=x",
        "--memory=0",
        "--memory=-1",
        "--memory-swap=-1",
        "--memory=1e9",
        "--cpus=0",
        "--cpus=nan",
        "--cpus=inf",
        "--cpus=x",
        "--cpu-shares=-2",
        "--ulimit=nofile=-1",
        "--ulimit=nofile",
        "--ulimit=rtprio=99",
        "--ulimit=nice=40",
        "--ulimit=nofile=unlimited",
        "--label=timeloom.runs=/elsewhere",
        "--label==x",
    ],
)
def test_a_value_that_is_no_limit_is_refused(argument: str) -> None:
    with pytest.raises(ProfileError):
        read_limits(DockerProfile(extra_args=(argument,)))


def test_limits_are_read_in_both_ways_of_writing_them() -> None:
    together = ("--pids-limit", "256", "--memory=1g", "-m", "512m", "--ulimit", "nofile=100:200", "--label=team=a=b")
    caps = read_limits(DockerProfile(cpus="1.5", memory="2g", extra_args=(*together, "--cpus", "2", "--shm-size=8m")))
    assert (caps.cpus, caps.memory_bytes, caps.pids, caps.shm_bytes) == (1.5, 512 * MIB, 256, 8 * MIB)
    assert (dict(caps.ulimits), dict(caps.labels)) == ({"nofile": 100}, {"team": "a=b"})


def test_sizes_are_read_as_engines_write_them() -> None:
    assert [read_size(text) for text in (5, "5", "5b", "1k", "2KB", "3m", "1G")] == [
        *(5, 5, 5, 1024, 2048, 3 * MIB, 1024 * MIB)
    ]


@pytest.mark.parametrize("mode", ["container:abc", "host extra", "", "-x", "ns:/proc/1/ns/net", "a" * 100])
def test_a_network_is_one_by_name(mode: str) -> None:
    with pytest.raises(ProfileError, match="network_mode must be none, host, bridge or a network name"):
        read_limits(DockerProfile(network_mode=mode))


def test_the_socket_is_one_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/engine.sock")
    assert DockerProfile().socket_path() == Path("/run/engine.sock")
    assert DockerProfile(socket="/other.sock").socket_path() == Path("/other.sock")
    monkeypatch.setenv("DOCKER_HOST", "")
    assert DockerProfile().socket_path() == Path("/var/run/docker.sock")
    for address in ("tcp://10.0.0.1:2375", "ssh://host", "relative.sock"):
        with pytest.raises(ProfileError, match="must be a path or unix://"):
            DockerProfile(socket=address).socket_path()
