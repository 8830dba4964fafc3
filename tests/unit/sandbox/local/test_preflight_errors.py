"""A machine that cannot isolate programs runs none, and the error names the missing feature."""

import asyncio
import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from timeloom.ports.sandbox import ExecutionLimits, Program, SandboxUnavailableError
from timeloom.sandbox.folders.run_folder import FolderOwner
from timeloom.sandbox.local import LocalSandbox, LocalSettings
from timeloom.sandbox.local.errors import startup_error, translate_limit_errors
from timeloom.sandbox.local.identity import check_identity, check_isolated
from timeloom.testing.sandbox_contract.fixtures import OutputRecorder, TableBroker


def refused(settings: LocalSettings, ran: Path) -> str:
    """The words of the refusal; the program has left no trace of having run."""

    async def run() -> None:
        sandbox = LocalSandbox(settings)
        given = Program(code=f"open({str(ran)!r}, 'w')", execution_id="none")
        try:
            async with sandbox.run(given, TableBroker(), OutputRecorder()):
                pass
        finally:
            await sandbox.close()

    with pytest.raises(SandboxUnavailableError) as raised:
        asyncio.run(run())
    assert not ran.exists()
    assert str(Path.home()) not in str(raised.value)
    return str(raised.value)


def fake_bubblewrap(folder: Path, script: str) -> None:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    (folder / "bwrap").write_text(f"#!/bin/bash\n{script}\n", encoding="ascii")
    (folder / "bwrap").chmod(0o755)


@pytest.fixture(name="settings")
def _settings(tmp_path: Path) -> LocalSettings:
    return LocalSettings(folder=tmp_path / "runs", warm=0, start_s=5)


def test_without_bubblewrap_it_says_what_to_install(
    settings: LocalSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install bubblewrap" in refused(settings, tmp_path / "ran")


def test_without_user_namespaces_it_says_what_to_allow(
    settings: LocalSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As bubblewrap says it where a kernel has shut them."""
    for at, words in enumerate(
        (
            "bwrap: No permissions to create new namespace, likely because the kernel does not allow",
            "bwrap: Creating new namespace failed: Operation not permitted",
            "bwrap: setting up uid map: Permission denied",
        )
    ):
        folder = Path("/tmp") / f"timeloom-fake-{os.getpid()}-{at}"
        fake_bubblewrap(folder, f"echo '{words}' >&2; exit 1")
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        try:
            assert "user.max_user_namespaces" in refused(settings, tmp_path / "ran")
        finally:
            shutil.rmtree(folder)


def test_a_bubblewrap_that_isolates_nothing_is_found_out(
    settings: LocalSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names a host process as its isolated one: nothing runs in that process, and it is not killed."""
    folder = Path("/tmp") / f"timeloom-fake-{os.getpid()}"
    ours = subprocess.Popen(["sleep", "600"])
    # It finds in its arguments on which descriptor it is to say so.
    script = f"""
info=$(tr '\\0' '\\n' <&"$2" | sed -n '/--info-fd/{{n;p}}')
printf '{{ "child-pid": %s\\n}}\\n' {ours.pid} >&"$info"
sleep 5
"""
    fake_bubblewrap(folder, script)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    try:
        assert "rights of this process" in refused(settings, tmp_path / "ran")
        assert ours.poll() is None
    finally:
        shutil.rmtree(folder)
        ours.kill()
        ours.wait()


def test_a_python_that_does_not_run_is_said_to_be_one(tmp_path: Path) -> None:
    for python in (tmp_path / "none", Path("/bin/true")):
        settings = LocalSettings(folder=tmp_path / "runs", warm=0, python=python)
        assert "Python" in refused(settings, tmp_path / "ran")
    assert list((tmp_path / "runs").iterdir()) == []


def test_an_interpreter_that_never_waits_is_given_up(
    settings: LocalSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path("/tmp") / f"timeloom-fake-{os.getpid()}"
    fake_bubblewrap(folder, "exec sleep 600")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    quick = LocalSettings(folder=settings.folder, warm=0, start_s=0.3)
    try:
        assert "did not start within 0.3 s" in refused(quick, tmp_path / "ran")
    finally:
        shutil.rmtree(folder)


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    assert "only this user" in refused(LocalSettings(folder=shared, warm=0), tmp_path / "ran")
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    assert "only this user" in refused(LocalSettings(folder=link, warm=0), tmp_path / "ran")


def test_a_process_of_ours_is_not_taken_for_an_isolated_one() -> None:
    with pytest.raises(SandboxUnavailableError, match="rights"):
        check_identity(os.getpid(), FolderOwner(os.getuid() + 1, os.getgid()))
    with pytest.raises(SandboxUnavailableError, match="rights"):
        check_identity(os.getpid(), FolderOwner(os.getuid(), os.getgid()))
    with pytest.raises(SandboxUnavailableError, match="cgroup, ipc, mnt, net, pid, user, uts"):
        check_isolated(os.getpid())


def test_what_bubblewrap_says_is_passed_on_without_paths() -> None:
    said = str(startup_error("bwrap: Can't mkdir /home/somebody/x: odd\nmore"))
    assert "Can't mkdir" in said
    assert "somebody" not in said
    assert "without a word" in str(startup_error(""))


def test_limits_that_the_kernel_refuses_are_named_in_a_sentence() -> None:
    limits = ExecutionLimits(processes=5_000_000)
    with (
        pytest.raises(SandboxUnavailableError, match=r"5000000 processes.*execution\.limits"),
        translate_limit_errors(limits),
    ):
        raise OSError(errno.EINVAL, "Invalid argument")
    with pytest.raises(ProcessLookupError), translate_limit_errors(limits):
        raise ProcessLookupError(errno.ESRCH, "No such process")


def test_a_program_with_more_processes_than_a_kernel_has_ends_or_is_refused(settings: LocalSettings) -> None:
    """A control group refuses the number; a machine without one runs the program."""

    async def run() -> str:
        sandbox = LocalSandbox(settings)
        program = Program(code="print(1)", execution_id="many", limits=ExecutionLimits(processes=5_000_000))
        try:
            async with sandbox.run(program, TableBroker(), OutputRecorder()) as ran:
                return ran.ending
        except SandboxUnavailableError as error:
            return str(error)
        finally:
            await sandbox.close()

    told = asyncio.run(run())
    assert told == "exited" or "execution.limits" in told
