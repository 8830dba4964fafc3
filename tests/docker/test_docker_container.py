"""The description of a container for the engine: isolated in both strategies, with the configured limits."""

import os
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.docker.docker_harness import STRATEGIES, Strategy
from timeloom.ports.sandbox import MIB, ExecutionLimits, SandboxUnavailableError
from timeloom.sandbox.docker import DockerProfile
from timeloom.sandbox.docker.cgroup import find_container_cgroup
from timeloom.sandbox.docker.container_spec import ContainerPlan, can_serve, describe_container
from timeloom.sandbox.docker.identity import check_identity
from timeloom.sandbox.docker.image import write_context
from timeloom.sandbox.docker.profile import read_limits
from timeloom.sandbox.docker.users import AccountFiles, ContainerUsers, choose_users, write_account_files
from timeloom.sandbox.folders.run_folder import FolderOwner, RunFolder
from timeloom.sandbox.unused_uid import has_account

RUN = RunFolder(Path("/runs/a/b"))
USERS = ContainerUsers(FolderOwner(61_001, 61_001), relay_uid=61_002)
ACCOUNTS = AccountFiles(Path("/runs/a/passwd"), Path("/runs/a/group"))


def plan(settings: DockerProfile, limits: ExecutionLimits | None = None) -> ContainerPlan:
    return ContainerPlan(settings, read_limits(settings), limits or ExecutionLimits(), USERS, ACCOUNTS)


def described(settings: DockerProfile, limits: ExecutionLimits | None = None) -> dict[str, Any]:
    """As the engine reads it."""
    container = describe_container(plan(settings, limits), RUN, {"timeloom.runs": "/runs"}, preload=False)
    return msgspec.json.decode(msgspec.json.encode(container))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_container_is_closed(strategy: Strategy) -> None:
    container = described(DockerProfile(container_strategy=strategy))
    host = container["HostConfig"]
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["ReadonlyRootfs"] is True
    assert host["NetworkMode"] == "none"
    assert container["NetworkDisabled"] is True
    assert {mount["Target"]: mount["ReadOnly"] for mount in host["Mounts"]} == {
        "/workspace/work": False,
        "/workspace/out": False,
        "/workspace/sock": True,
        "/etc/passwd": True,
        "/etc/group": True,
    }
    assert all("size=" in options and "nosuid" in options for options in host["Tmpfs"].values())
    assert host["MemorySwap"] == host["Memory"] == 1024 * MIB
    assert host["PidsLimit"] == 65
    assert (container["Env"], host["LogConfig"]) == ([], {"Type": "none"})


def test_a_split_container_starts_as_the_programs_user_with_no_capability_at_all() -> None:
    container = described(DockerProfile(network_mode="host"))
    assert (container["User"], container["HostConfig"]["CapAdd"]) == ("61001:61001", [])
    assert container["HostConfig"]["NetworkMode"] == "none", "the network is the supervisor's, which is not in it"
    assert plan(DockerProfile()).peer_uids() == {61_001}


def test_a_combined_container_has_what_its_supervisor_needs_to_start_the_interpreter() -> None:
    settings = DockerProfile(container_strategy="combined", network_mode="bridge")
    container = described(settings)
    assert (container["User"], container["HostConfig"]["CapAdd"]) == (
        "0:0",
        ["SETUID", "SETGID", "SETPCAP", "SYS_ADMIN"],
    )
    assert container["HostConfig"]["NetworkMode"] == "bridge"
    assert container["Cmd"][-1] == "/workspace/sock/door:61001:61001:61002"
    assert plan(settings).peer_uids() == {61_002}


def test_the_users_of_a_container_have_no_account_here(tmp_path: Path) -> None:
    users = choose_users()
    assert users.program.uid not in (0, users.relay_uid)
    assert not has_account(users.relay_uid)
    assert has_account(users.program.uid) == (os.geteuid() != 0)
    accounts = write_account_files(tmp_path, users)
    uid, gid = users.program.uid, users.program.gid
    assert accounts.passwd.read_text() == f"root:x:0:0::/:\nsandbox:x:{uid}:{gid}::/workspace/work:\n"
    assert accounts.group.read_text() == f"root:x:0:\nsandbox:x:{gid}:\n"
    assert {path.stat().st_mode & 0o777 for path in (accounts.passwd, accounts.group)} == {0o644}


def test_the_smaller_limit_counts() -> None:
    small = DockerProfile(memory="64m", pids=5, cpus=0.5, extra_args=("--ulimit", "nofile=20", "--shm-size", "1m"))
    host = described(small)["HostConfig"]
    ulimits = {each["Name"]: each["Hard"] for each in host["Ulimits"]}
    assert (host["Memory"], host["PidsLimit"], host["NanoCpus"], ulimits["nofile"]) == (64 * MIB, 6, 500_000_000, 20)
    assert "size=1048576" in host["Tmpfs"]["/dev/shm"]
    large = DockerProfile(memory="64g", pids=5000, extra_args=("--ulimit", "nofile=20000"))
    host = described(large, ExecutionLimits(memory_bytes=32 * MIB, processes=3, open_files=9))["HostConfig"]
    ulimits = {each["Name"]: each["Hard"] for each in host["Ulimits"]}
    assert (host["Memory"], host["PidsLimit"], ulimits["nofile"], ulimits["core"]) == (32 * MIB, 4, 9, 0)


def test_podman_is_told_in_its_own_words() -> None:
    settings = DockerProfile()
    told = ContainerPlan(settings, read_limits(settings), ExecutionLimits(), USERS, ACCOUNTS, is_podman=True)
    host = describe_container(told, RUN, {}, preload=False).host_config
    assert "nr_inodes" not in host.tmpfs["/tmp"]
    assert {"/run", "/var", "/sys"} <= set(host.tmpfs)
    assert any("/proc/cmdline" in option for option in host.security_opt)


def test_labels_of_a_profile_do_not_replace_ours() -> None:
    container = described(DockerProfile(extra_args=("--label", "team=a")))
    assert container["Labels"] == {"team": "a", "timeloom.runs": "/runs"}


def test_a_waiting_container_serves_programs_that_differ_in_what_is_watched_from_outside() -> None:
    assert can_serve(ExecutionLimits(wall_s=1, output_bytes=5), ExecutionLimits())
    assert not can_serve(ExecutionLimits(memory_bytes=MIB), ExecutionLimits())


def test_the_context_names_nobody_of_this_machine(tmp_path: Path) -> None:
    write_context(tmp_path / "context.tar", None)
    with tarfile.open(tmp_path / "context.tar") as tar:
        entries = {entry.name: entry for entry in tar.getmembers()}
        rules = tar.extractfile("root/opt/timeloom/filter.bpf")
        assert rules is not None
        assert len(rules.read()) % 8 == 0
    assert {"Dockerfile", *(f"root/opt/timeloom/{name}.py" for name in ("bootstrap", "launch", "relay"))} <= set(
        entries
    )
    assert {(entry.uid, entry.gid, entry.uname, entry.gname) for entry in entries.values()} == {(0, 0, "", "")}


def test_a_process_that_is_not_closed_in_is_told_apart() -> None:
    with pytest.raises(SandboxUnavailableError, match=r"Uid .*it shares the net namespace"):
        check_identity([1, os.getpid()], FolderOwner(1001, 1001))
    with pytest.raises(SandboxUnavailableError, match="--pid host"):
        check_identity([], FolderOwner(1001, 1001))


def test_a_context_ends_where_its_archive_ends(tmp_path: Path) -> None:
    """An engine that reads to the end of the archive has then read the whole request."""
    context = tmp_path / "context.tar"
    write_context(context, None)
    data = context.read_bytes()
    assert data.endswith(bytes(2 * tarfile.BLOCKSIZE))
    assert any(data[-3 * tarfile.BLOCKSIZE : -2 * tarfile.BLOCKSIZE])


@pytest.mark.parametrize("version", [1, 2])
def test_a_containers_group_is_read_while_it_is_there(version: int, tmp_path: Path) -> None:
    mount = "cgroup /sys/memory cgroup rw,memory 0 0" if version == 1 else "cgroup2 /sys/memory cgroup2 rw 0 0"
    events = {1: "memory.oom_control", 2: "memory.events"}[version]
    folder = tmp_path / "sys/memory/docker/abc"
    for place in (folder, tmp_path / "proc/self", tmp_path / "proc/7"):
        place.mkdir(parents=True)
    (tmp_path / "proc/self/mounts").write_text(f"{mount}\n", encoding="ascii")
    (tmp_path / "proc/7/cgroup").write_text("9:memory:/docker/abc\n" if version == 1 else "0::/docker/abc\n", "ascii")
    (folder / events).write_text("oom_kill 0\n", encoding="ascii")
    (folder / "memory.stat").write_text("anon 4000\nshmem 96\ntotal_rss 4000\ntotal_shmem 96\n", encoding="ascii")
    group = find_container_cgroup(7, tmp_path)
    assert (group.was_oom_killed(), group.memory_bytes()) == (False, 4096)
    (folder / events).write_text("oom_kill 1\n", encoding="ascii")
    assert group.was_oom_killed()
    for name in (events, "memory.stat"):
        (folder / name).unlink()
    assert (group.was_oom_killed(), group.memory_bytes()) == (True, None)
    assert find_container_cgroup(8, tmp_path).was_oom_killed() is False
