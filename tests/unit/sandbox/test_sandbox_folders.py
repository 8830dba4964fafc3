"""Run folders are created, measured, removed with any content, and swept after their supervisor has died."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from timeloom.core.paths import PathError
from timeloom.ports.ids import RandomIds
from timeloom.sandbox.folders.disk_usage import MAX_DEPTH, measure_folders
from timeloom.sandbox.folders.remove_tree import remove_folder
from timeloom.sandbox.folders.run_folder import FolderOwner, RunFolders

ME = FolderOwner(os.geteuid(), os.getegid())


def deep(folder: Path, depth: int) -> None:
    """Folders in folders, deeper than a path can say."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 100, dir_fd=here)
        inner = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def test_a_folder_is_removed_with_links_and_without_what_they_point_to(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("kept", encoding="ascii")
    folder = tmp_path / "run"
    (folder / "a").mkdir(parents=True)
    (folder / "a/link").symlink_to(kept)
    (folder / "link").symlink_to(kept / "file")
    os.mkfifo(folder / "a/pipe")
    (folder / "a/shut").mkdir(mode=0o000)
    remove_folder(folder)
    assert list(tmp_path.iterdir()) == [kept]
    assert (kept / "file").read_text(encoding="ascii") == "kept"


def test_a_folder_of_any_depth_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    deep(folder, 3000)
    remove_folder(folder)
    assert not folder.exists()


def test_what_is_not_there_or_no_folder_is_removed_too(tmp_path: Path) -> None:
    remove_folder(tmp_path / "none")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    remove_folder(tmp_path / "file")
    remove_folder(tmp_path / "link")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_gone_also_where_others_remove_parts_of_it_meanwhile(tmp_path: Path) -> None:
    for n in range(30):
        folder = tmp_path / str(n)
        parts = [folder / f"run{m}" for m in range(4)]
        for part in parts:
            (part / "work/a/b").mkdir(parents=True)
            (part / "out").mkdir()
        with ThreadPoolExecutor(5) as threads:
            list(threads.map(remove_folder, [*parts, folder]))
    assert list(tmp_path.iterdir()) == []


def test_growth_counts_files_folders_and_links_by_what_they_take(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_bytes(b"x" * 100_000)
    (tmp_path / "link").symlink_to("/usr")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10**9)
    found = measure_folders([tmp_path, tmp_path / "none"], 1000)
    assert found.files == 5
    assert 100_000 <= found.bytes < 10**6
    assert not found.is_too_deep


def test_growth_is_counted_to_a_number_and_to_a_depth(tmp_path: Path) -> None:
    for n in range(50):
        (tmp_path / str(n)).mkdir()
        (tmp_path / str(n) / "file").touch()
    assert 20 < measure_folders([tmp_path], 20).files <= 52
    deep(tmp_path, MAX_DEPTH + 5)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    assert measure_folders([tmp_path], 10_000).is_too_deep
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    remove_folder(tmp_path / ("d" * 100))


def test_inputs_are_copied_below_the_folder_only(tmp_path: Path) -> None:
    folders = RunFolders.open(tmp_path / "runs", RandomIds())
    run = folders.create(ME)
    source = tmp_path / "source"
    source.write_text("given", encoding="ascii")
    (tmp_path / "link").symlink_to(source)
    run.copy_inputs({"turn/files/a.txt": source, "turn/files/b.txt": source}, ME)
    assert (run.out / "turn/files/b.txt").read_text(encoding="ascii") == "given"
    for place in ("../a", "/a", "a/../../b", ""):
        with pytest.raises(PathError):
            run.copy_inputs({place: source}, ME)
    for no_file in (tmp_path / "link", tmp_path, tmp_path / "none"):
        with pytest.raises(OSError, match=r".+"):
            run.copy_inputs({"c": no_file}, ME)
    run.remove()
    assert not run.path.exists()
    folders.close()
    folders.close()
    assert list((tmp_path / "runs").iterdir()) == []


def test_only_the_folders_of_the_dead_are_swept(tmp_path: Path) -> None:
    program = f"""
import os, sys
sys.path[:] = {sys.path!r}
from pathlib import Path
from timeloom.ports.ids import RandomIds
from timeloom.sandbox.folders.run_folder import RunFolders
print(RunFolders.open(Path({str(tmp_path)!r}), RandomIds()).path.name, flush=True)
sys.stdin.read()
os._exit(0)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        name = other.stdout.readline().strip()
        (tmp_path / "a file").touch()
        living = RunFolders.open(tmp_path, RandomIds())
        assert (tmp_path / name).is_dir()
        assert living.removed == ()
        other.communicate()
    again = RunFolders.open(tmp_path, RandomIds())
    assert again.removed == (name,)
    assert not (tmp_path / name).exists()
    assert living.path.is_dir()
    living.close()
    again.close()
