"""Files are opened beneath a root, and nothing that points elsewhere is followed."""

import os
import socket
from pathlib import Path

import pytest

from timeloom.core.codes import CodedError
from timeloom.core.paths import PhysicalPath
from timeloom.platform.open_beneath import open_beneath

NOTES = PhysicalPath("turn_1/files/a/notes.txt")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with one file, beside a folder that must stay out of reach."""
    folder = tmp_path / "out"
    (folder / "turn_1/files/a").mkdir(parents=True)
    (folder / str(NOTES)).write_text("inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/notes.txt").write_text("outside")
    return folder


def content(root: int | Path, path: PhysicalPath = NOTES) -> str:
    with os.fdopen(open_beneath(root, path)) as file:
        return file.read()


def refusal(root: Path, path: PhysicalPath = NOTES, flags: int = os.O_RDONLY) -> str:
    before = open_descriptors()
    with pytest.raises(CodedError) as refused:
        open_beneath(root, path, flags)
    assert str(root) not in str(refused.value)
    assert open_descriptors() == before
    return refused.value.code


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_a_file_is_read_beneath_a_folder_or_its_descriptor(root: Path) -> None:
    assert content(root) == "inside"
    descriptor = os.open(root, os.O_RDONLY)
    try:
        assert content(descriptor) == "inside"
        assert content(descriptor) == "inside"
    finally:
        os.close(descriptor)


def test_the_root_itself_may_be_reached_by_a_link(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    assert content(link) == "inside"


def test_only_the_new_descriptor_stays_open_and_it_blocks(root: Path) -> None:
    before = open_descriptors()
    descriptor = open_beneath(root, NOTES)
    try:
        assert open_descriptors() == before + 1
        assert os.get_blocking(descriptor)
        assert not os.get_inheritable(descriptor)
    finally:
        os.close(descriptor)


def test_a_link_in_place_of_the_file_is_refused(root: Path) -> None:
    (root / str(NOTES)).unlink()
    (root / str(NOTES)).symlink_to(root.parent / "outside/notes.txt")
    assert refusal(root) == "path_symlink"
    assert refusal(root, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC) == "path_symlink"
    assert (root.parent / "outside/notes.txt").read_text() == "outside"


def test_a_link_that_stays_inside_is_refused_too(root: Path) -> None:
    (root / "turn_1/files/link.txt").symlink_to("a/notes.txt")
    assert refusal(root, PhysicalPath("turn_1/files/link.txt")) == "path_symlink"


def test_a_dangling_link_is_refused_and_creates_nothing(root: Path) -> None:
    (root / "turn_1/files/link.txt").symlink_to(root.parent / "outside/new.txt")
    path = PhysicalPath("turn_1/files/link.txt")
    assert refusal(root, path, os.O_WRONLY | os.O_CREAT) == "path_symlink"
    assert not (root.parent / "outside/new.txt").exists()


@pytest.mark.parametrize("folder", ["turn_1", "turn_1/files", "turn_1/files/a"])
def test_a_link_in_place_of_any_folder_is_refused(root: Path, folder: str) -> None:
    (root / folder).rename(root.parent / "moved")
    (root / folder).symlink_to(root.parent / "moved")
    assert refusal(root) == "path_symlink"
    assert refusal(root, flags=os.O_WRONLY | os.O_CREAT) == "path_symlink"


def test_a_file_with_a_second_hard_link_is_refused_and_not_truncated(root: Path) -> None:
    (root / str(NOTES)).unlink()
    (root / str(NOTES)).hardlink_to(root.parent / "outside/notes.txt")
    assert refusal(root, flags=os.O_WRONLY | os.O_TRUNC) == "path_not_regular"
    assert (root.parent / "outside/notes.txt").read_text() == "outside"


def test_a_pipe_is_refused_without_waiting(root: Path) -> None:
    os.mkfifo(root / "turn_1/files/pipe")
    path = PhysicalPath("turn_1/files/pipe")
    assert refusal(root, path) == "path_not_regular"
    assert refusal(root, path, os.O_WRONLY) == "path_not_regular"


def test_a_folder_is_not_a_file(root: Path) -> None:
    path = PhysicalPath("turn_1/files/a")
    assert refusal(root, path) == "path_not_regular"
    assert refusal(root, path, os.O_RDWR) == "path_not_regular"


def test_a_socket_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)  # the address of a socket is short, so it is given relative to here
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("turn_1/files/socket")
        assert refusal(root, PhysicalPath("turn_1/files/socket")) == "path_not_regular"


def test_a_missing_file_is_reported_without_the_root(root: Path) -> None:
    for text in ("turn_1/files/none.txt", "turn_2/files/none.txt"):
        with pytest.raises(FileNotFoundError) as missing:
            open_beneath(root, PhysicalPath(text))
        assert str(root) not in str(missing.value)


def test_a_missing_root_is_reported_without_its_name(root: Path) -> None:
    with pytest.raises(FileNotFoundError, match="root folder") as missing:
        open_beneath(root / "none", NOTES)
    assert str(root) not in str(missing.value)


def test_a_file_in_place_of_a_folder_is_an_error(root: Path) -> None:
    with pytest.raises(NotADirectoryError):
        open_beneath(root, PhysicalPath("turn_1/files/a/notes.txt/x"))


def test_a_new_file_is_made_with_its_folders(root: Path) -> None:
    path = PhysicalPath("turn_2/outputs/b/c/new.txt")
    with os.fdopen(open_beneath(str(root), path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w") as file:
        file.write("new")
    assert content(root, path) == "new"
    with pytest.raises(FileExistsError):
        open_beneath(root, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def test_a_file_is_truncated_or_appended_to_when_asked(root: Path) -> None:
    with os.fdopen(open_beneath(root, NOTES, os.O_WRONLY | os.O_APPEND), "a") as file:
        file.write(" and more")
    assert content(root) == "inside and more"
    os.close(open_beneath(root, NOTES, os.O_WRONLY | os.O_TRUNC))
    assert content(root) == ""


def test_a_flag_that_would_change_what_is_opened_is_refused(root: Path) -> None:
    with pytest.raises(ValueError, match="flags"):
        open_beneath(root, NOTES, os.O_RDONLY | os.O_DIRECTORY)
