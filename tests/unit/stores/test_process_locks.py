"""Holders: one is alive as long as its process is, and dead the moment it is not."""

import fcntl
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import pytest

from timeloom.ports.ids import RandomIds
from timeloom.stores import process_locks
from timeloom.stores.process_locks import ProcessInfo, ProcessLocks


class FixedClock:
    def epoch_us(self) -> int:
        return 1_770_603_272_676_425


class GivenIds:
    def __init__(self, *bits: int) -> None:
        self.left = list(bits)

    def bits(self) -> int:
        return self.left.pop(0)


def opened(folder: Path) -> ProcessLocks:
    return ProcessLocks(folder, FixedClock(), RandomIds())


def test_a_holder_is_alive_until_it_is_closed(tmp_path: Path) -> None:
    first, second = opened(tmp_path / "holders"), opened(tmp_path / "holders")
    name = first.claim_name()
    assert name == first.claim_name() != second.claim_name()
    assert first.is_own(name) and not second.is_own(name) and not first.is_own("")
    assert first.is_alive(name) and second.is_alive(name)
    first.close()
    first.close()
    assert not second.is_alive(name)
    assert [file.stem for file in (tmp_path / "holders").iterdir()] == [second.claim_name()]
    second.close()


def test_its_file_says_who_it_is_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    holder = opened(tmp_path / "holders")
    file = tmp_path / "holders" / f"{holder.claim_name()}.lock"
    info = msgspec.json.decode(file.read_bytes(), type=ProcessInfo)
    assert (info.pid, info.opened) == (os.getpid(), "2026-02-09T02:14:32.676425Z")
    assert info.host in holder.describe(holder.claim_name()) and f"process {os.getpid()}" in holder.describe(
        holder.claim_name()
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    file.write_text("not JSON")
    assert "unknown process" in holder.describe(holder.claim_name())
    assert "unknown process" in holder.describe("0" * 16)
    holder.close()


@pytest.mark.parametrize(
    ("argv", "program"), [(["/x/timeloom/__main__.py"], "timeloom"), (["/x/worker"], "worker"), ([], "python")]
)
def test_a_program_is_named_without_its_place(
    argv: list[str], program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    holder = opened(tmp_path)
    assert f"({program}," in holder.describe(holder.claim_name())
    holder.close()


def test_a_holder_that_was_killed_is_dead(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        watcher = opened(tmp_path)
        assert watcher.is_alive(name)
        assert f"process {process.pid}" in watcher.describe(name)
        process.kill()
    assert not watcher.is_alive(name)
    assert list(tmp_path.iterdir()) == []


PROGRAM = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from timeloom.ports.clock import SystemClock
    from timeloom.ports.ids import RandomIds
    from timeloom.stores.process_locks import ProcessLocks

    locks = ProcessLocks(Path(sys.argv[1]), SystemClock(), RandomIds())
    print(locks.claim_name(), flush=True)
    time.sleep(60)
    """
)


def test_a_child_does_not_keep_its_parents_holder_alive(tmp_path: Path) -> None:
    fork = "\nimport os\nif os.fork() == 0:\n    print('child', os.getpid(), flush=True)\n    time.sleep(60)\n"
    program = PROGRAM.replace("\ntime.sleep(60)", f"{fork}time.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name, child = process.stdout.readline().strip(), process.stdout.readline().split()
        watcher = opened(tmp_path)
        assert watcher.is_alive(name)
        process.kill()
        process.wait()
        try:
            assert not watcher.is_alive(name)
        finally:
            os.kill(int(child[1]), 9)


def test_what_is_no_holder_is_dead_and_what_cannot_be_looked_at_is_alive(tmp_path: Path) -> None:
    holder = opened(tmp_path)
    for name in ("", "../../etc/passwd", "0" * 15, "g" * 16):
        assert not holder.is_alive(name)
    assert not opened(tmp_path / "missing").is_alive("0" * 16)
    (tmp_path / "file").write_text("")
    assert not opened(tmp_path / "file").is_alive("0" * 16)
    (tmp_path / f"{'1' * 16}.lock").symlink_to("file")
    assert holder.is_alive("1" * 16)


def test_what_dead_ones_left_is_cleared(tmp_path: Path) -> None:
    holder = opened(tmp_path)
    for name in ("2" * 16, "3" * 16):
        (tmp_path / f"{name}.lock").write_text("left")
    own = holder.claim_name()
    holder.remove_dead()
    assert [file.stem for file in tmp_path.iterdir()] == [own]
    holder.close()
    opened(tmp_path / "missing").remove_dead()


def test_a_name_that_is_taken_is_not_used(tmp_path: Path) -> None:
    (tmp_path / f"{7:016x}.lock").write_text("")
    holder = ProcessLocks(tmp_path, FixedClock(), GivenIds(7, 8))
    assert holder.claim_name() == f"{8:016x}"
    holder.close()


def test_a_file_that_was_taken_for_a_dead_ones_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher, lock = opened(tmp_path), fcntl.flock
    interferences = iter(["removes", "locks"])
    descriptors: list[int] = []

    def flock(descriptor: int, operation: int) -> None:
        if operation & fcntl.LOCK_EX:
            interference = next(interferences, "")
            if interference == "removes":
                watcher.remove_dead()
            elif interference == "locks":
                (file,) = tmp_path.iterdir()
                descriptors.append(os.open(file, os.O_RDONLY))
                lock(descriptors[0], fcntl.LOCK_SH)
        lock(descriptor, operation)

    monkeypatch.setattr(process_locks.fcntl, "flock", flock)
    holder = ProcessLocks(tmp_path, FixedClock(), GivenIds(7, 8, 9))
    assert holder.claim_name() == f"{9:016x}"
    assert watcher.is_alive(holder.claim_name())
    os.close(descriptors[0])
    holder.close()
