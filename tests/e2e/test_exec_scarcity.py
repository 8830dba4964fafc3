"""Programs in `timeloom chat` on a machine that has no more of something: it is said what, where and what to do."""

import shlex
from pathlib import Path

from tests.e2e.test_exec_command import executes, exported, ran, scripted, timeloom

FULL = "the disk is full that has the folder in which programs are run"


def with_small_disk(command: list[str], folder: Path, size: int = 3_000_000, *, filled: bool = False) -> list[str]:
    """The command where that folder is on a disk of that size."""
    # Not to the last byte: a temporary folder in which nothing can be written is not taken for one.
    before = f"head -c {size - 15_000} /dev/zero > {folder}/fill; " if filled else ""
    whole = ["bwrap", "--dev-bind", "/", "/", "--size", str(size), "--tmpfs", str(folder), "--cap-add", "ALL"]
    return [*whole, "--", "bash", "-c", f"{before}{shlex.join(command)}"]


def with_files(command: list[str], most: int, kind: str = "") -> list[str]:
    """The command where a process may have so many files open."""
    return ["bash", "-c", f"ulimit {kind} -n {most}; exec {shlex.join(command)}"]


def test_a_program_that_fills_the_disk_is_said_to_have(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    program = ["open('x', 'wb').write(bytes(10**7))"]
    done = ran(with_small_disk(scripted(tmp_path, executes(program)), small), "go\n", TMPDIR=str(small))
    assert done.returncode == 0, done.stderr
    assert f"No space left on device ({FULL}" in done.stderr
    assert "set TMPDIR to a folder on another disk" in exported(tmp_path)


def test_where_there_is_no_room_for_a_program_it_is_said_which_disk_is_full(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    command = scripted(tmp_path, executes(["print(1)"]))
    done = ran(with_small_disk(command, small, filled=True), "go\n", TMPDIR=str(small))
    assert done.returncode == 0, done.stderr
    assert f"✗ {FULL}" in done.stderr
    assert "Traceback" not in done.stderr


def test_where_there_is_no_room_for_what_a_program_leaves_it_is_said_which_disk_is_full(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    program = ["(OUT_DIR / 'large.bin').write_bytes(bytes(3 * 10**7))"]
    chat = shlex.join(scripted(tmp_path, executes(program, contract=[{"filename": "large.bin"}])))
    both = ["bash", "-c", f"{chat}; {shlex.join(timeloom(tmp_path, 'export'))} --json; find {data} -name '.part-*'"]
    done = ran(with_small_disk(both, data, 20_000_000), "go\n")
    assert "large.bin: the disk of the data folder" in done.stdout
    assert ".part-" not in done.stdout


def test_few_open_files_are_enough_for_a_program(tmp_path: Path) -> None:
    program = ["import resource", "print('may have', resource.getrlimit(resource.RLIMIT_NOFILE))"]
    done = ran(with_files(scripted(tmp_path, executes(program)), 100), "go\n")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert "✗" not in done.stderr
    assert "may have (100, 100)" in exported(tmp_path)


def test_as_many_files_are_opened_as_may_be(tmp_path: Path) -> None:
    done = ran(with_files(scripted(tmp_path, executes(["print(1)"])), 24, "-S"), "go\n")
    assert "✗" not in done.stderr


def test_where_too_few_files_may_be_open_it_is_said_how_to_allow_more(tmp_path: Path) -> None:
    done = ran(with_files(scripted(tmp_path, executes(["print(1)"])), 24), "go\n")
    assert done.returncode == 0, done.stderr
    assert "this process may have 24 open: allow more (ulimit -n 1024)" in done.stderr
    assert "Traceback" not in done.stderr
