"""The workspace reads and writes beneath its folder, in one step, and follows no link."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from timeloom.core.codes import CodedError
from timeloom.core.paths import PhysicalPath
from timeloom.tools import workspace as module
from timeloom.tools.workspace import Workspace

NOTES = PhysicalPath("turn_1/files/a/notes.txt")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder that does not exist yet, beside one that must stay out of reach."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.txt").write_text("secret")
    return tmp_path / "data/out"


def code_of(error: pytest.ExceptionInfo[CodedError], out: Path) -> str:
    assert str(out) not in str(error.value)
    assert "outside" not in str(error.value)
    return error.value.code


def test_what_is_written_is_read_back_and_leaves_nothing_else(out: Path) -> None:
    workspace = Workspace(out)
    assert workspace.read(NOTES) is None
    assert workspace.size(NOTES) is None
    assert workspace.open(NOTES) is None
    workspace.write(NOTES, b"one")
    workspace.write(NOTES, b"two!")
    assert (workspace.read(NOTES), workspace.size(NOTES)) == (b"two!", 4)
    assert [file.name for file in (out / "turn_1/files/a").iterdir()] == ["notes.txt"]


KILLED_WHILE_IT_WRITES = """
import resource, signal, sys
from pathlib import Path
from timeloom.core.paths import PhysicalPath
from timeloom.tools.workspace import Workspace
# As if by somebody else, in the middle of the file.
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6))
Workspace(Path(sys.argv[1])).write(PhysicalPath("turn_1/files/a/notes.txt"), bytes(2 * 10**6))
"""


def test_a_write_that_is_cut_off_leaves_nothing(out: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED_WHILE_IT_WRITES, out], check=False)
    assert done.returncode == -signal.SIGXFSZ
    assert list((out / "turn_1/files/a").iterdir()) == []


def test_where_files_cannot_be_without_names_they_are_written_all_the_same(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a file system says that has none.
    monkeypatch.setattr(module, "_O_TMPFILE", os.O_EXCL | os.O_CREAT | os.O_DIRECTORY)
    workspace = Workspace(out)
    workspace.write(NOTES, b"one")
    assert workspace.read(NOTES) == b"one"
    assert [file.name for file in (out / "turn_1/files/a").iterdir()] == ["notes.txt"]


def test_a_read_only_file_cannot_be_written_by_others_and_is_replaced_by_us(out: Path) -> None:
    workspace = Workspace(out)
    workspace.write(NOTES, b"one", read_only=True)
    assert (out / str(NOTES)).stat().st_mode & 0o777 == 0o444
    assert workspace.ensure_content(NOTES, b"two", read_only=False)
    assert (out / str(NOTES)).stat().st_mode & 0o777 == 0o644
    assert not workspace.ensure_content(NOTES, b"two", read_only=False)


def test_a_link_in_place_of_the_file_is_replaced_and_not_followed(out: Path) -> None:
    workspace = Workspace(out)
    secret = out.parent.parent / "outside/secret.txt"
    (out / "turn_1/files/a").mkdir(parents=True)
    (out / str(NOTES)).symlink_to(secret)
    with pytest.raises(CodedError) as refused:
        workspace.read(NOTES)
    assert code_of(refused, out) == "path_symlink"
    assert workspace.ensure_content(NOTES, b"mine", read_only=True)
    assert (secret.read_text(), workspace.read(NOTES)) == ("secret", b"mine")


def test_a_link_on_the_way_is_refused(out: Path) -> None:
    workspace = Workspace(out)
    (out / "turn_1").mkdir(parents=True)
    (out / "turn_1/files").symlink_to(out.parent.parent / "outside")
    with pytest.raises(CodedError) as read:
        workspace.read(NOTES)
    with pytest.raises(CodedError) as removed:
        workspace.remove(NOTES)
    with pytest.raises(CodedError) as written:
        workspace.write(NOTES, b"x")
    assert {code_of(each, out) for each in (read, removed, written)} == {"path_symlink"}


def test_a_folder_where_the_file_would_be_is_refused(out: Path) -> None:
    workspace = Workspace(out)
    (out / str(NOTES)).mkdir(parents=True)
    with pytest.raises(CodedError) as refused:
        workspace.write(NOTES, b"x")
    assert code_of(refused, out) == "path_not_regular"
    assert [file.name for file in (out / "turn_1/files/a").iterdir()] == ["notes.txt"]
    with pytest.raises(CodedError) as failed:
        workspace.remove(NOTES)
    assert code_of(failed, out) == "workspace_failed"


def test_a_disk_that_refuses_is_named_by_its_error_only(out: Path) -> None:
    out.parent.mkdir()
    out.write_text("a file where the folder would be")
    with pytest.raises(CodedError) as refused:
        Workspace(out).write(NOTES, b"x")
    assert code_of(refused, out) == "workspace_failed"
    assert "EEXIST" in str(refused.value)
    with pytest.raises(CodedError) as long:
        Workspace(Path("/" + "x" * 5000)).read(NOTES)
    assert code_of(long, out) == "workspace_failed"


def test_a_file_above_the_bound_is_neither_written_nor_read(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(out)
    workspace.write(NOTES, b"12345")
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 4)
    with pytest.raises(CodedError) as read:
        workspace.read(NOTES)
    with pytest.raises(CodedError) as written:
        workspace.write(NOTES, b"12345")
    assert code_of(read, out) == code_of(written, out) == "file_too_large"


def test_a_file_is_removed_once(out: Path) -> None:
    workspace = Workspace(out)
    workspace.write(NOTES, b"x")
    assert [workspace.remove(NOTES), workspace.remove(NOTES)] == [True, False]


def test_a_walk_finds_plain_files_with_lawful_names_in_order(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(out)
    assert workspace.list_files(()).files == ()
    for name in ("b.txt", "a/z.txt", "a/b/c.txt"):
        workspace.write(PhysicalPath(f"turn_1/files/{name}"), b"x")
    (out / "turn_1/files/con").write_text("a device's name")
    (out / "turn_1/files/.part-1-1").write_text("being written")
    (out / "turn_1/files/link").symlink_to(out.parent.parent / "outside/secret.txt")
    (out / "turn_1/files/folder").symlink_to(out.parent.parent / "outside")
    (out / "timeline.json").write_text("{}")
    found = [str(place) for place in workspace.list_files(()).files]
    assert found == ["turn_1/files/b.txt", "turn_1/files/a/z.txt", "turn_1/files/a/b/c.txt"]
    assert [str(place) for place in workspace.list_files(("turn_1", "files", "a")).files] == found[1:]
    monkeypatch.setattr(module, "MAX_LISTED_DEPTH", 3)
    assert [str(place) for place in workspace.list_files(()).files] == found[:2]
    monkeypatch.setattr(module, "MAX_LISTED_FILES", 1)
    assert not workspace.list_files(()).complete
