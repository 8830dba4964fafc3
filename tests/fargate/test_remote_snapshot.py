"""Snapshots of folders: which files go into a zip, and which entries of a zip are never written."""

import contextlib
import os
import stat
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.sandbox.remote.snapshot import SnapshotError, SnapshotLimits, pack, remove_files, unpack

ROOM = SnapshotLimits(files=100, bytes=1_000_000)


def zipped(place: Path, *entries: tuple[str, bytes], mode: int = 0) -> Path:
    """Return a zip with entries of these names."""
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            entry = zipfile.ZipInfo("x")
            entry.filename, entry.external_attr = name, mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return place


def folder(place: Path) -> Path:
    place.mkdir()
    return place


def test_a_folder_comes_back_as_it_was(tmp_path: Path) -> None:
    source, target = folder(tmp_path / "a"), folder(tmp_path / "b")
    (source / "in").mkdir()
    (source / "in" / "äö.txt").write_text("deep")
    (source / ".restoring").write_text("top")
    packed = pack(source, tmp_path / "a.zip", ROOM)
    assert unpack(tmp_path / "a.zip", target, ROOM) == packed.files
    assert (target / "in" / "äö.txt").read_text() == "deep"
    assert (target / ".restoring").read_text() == "top"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "a.zip", "b"]


def test_the_same_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    source = folder(tmp_path / "a")
    (source / "x").write_text("x")
    for name in ("one.zip", "two.zip"):
        pack(source, tmp_path / name, ROOM)
        os.utime(source / "x", (1, 1))
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_what_is_known_is_not_packed_again(tmp_path: Path) -> None:
    source = folder(tmp_path / "a")
    (source / "same").write_text("same")
    (source / "other").write_text("old")
    known = pack(source, tmp_path / "before.zip", ROOM).files
    (source / "other").write_text("new")
    packed = pack(source, tmp_path / "after.zip", ROOM, known)
    assert zipfile.ZipFile(tmp_path / "after.zip").namelist() == ["other"]
    assert packed.files["same"] == known["same"]
    assert packed.files["other"] != known["other"]


def test_what_is_no_plain_file_is_left_behind_and_named(tmp_path: Path) -> None:
    source = folder(tmp_path / "a")
    (source / "plain").write_text("x")
    (source / "link").symlink_to("/etc/passwd")
    (source / "to_folder").symlink_to("/etc")
    os.mkfifo(source / "pipe")
    (source / "one_name").write_text("x")
    os.link(source / "one_name", source / "two_names")
    (source / "bad\nname").write_text("x")
    (source / os.fsdecode(b"\xff")).write_text("x")
    packed = pack(source, tmp_path / "a.zip", ROOM)
    assert list(packed.files) == ["plain"]
    assert sorted(packed.left_out) == [
        "\\udcff (its name is not harmless)",
        "bad\\nname (its name is not harmless)",
        "link (a link)",
        "one_name (a file with several names)",
        "pipe (no regular file)",
        "to_folder (a link)",
        "two_names (a file with several names)",
    ]


def test_what_has_no_room_and_what_is_too_deep_is_left_behind(tmp_path: Path) -> None:
    source = folder(tmp_path / "a")
    (source / "a").write_text("x" * 10)
    (source / "b").write_text("x" * 10)
    (source / "skip").mkdir()
    (source / "skip" / "x").write_text("x")
    (source / "/".join("d" * 70)).mkdir(parents=True)
    packed = pack(source, tmp_path / "a.zip", SnapshotLimits(files=10, bytes=15), skipped=frozenset({"skip"}))
    assert list(packed.files) == ["a"]
    assert packed.left_out[0] == "b (no room)"
    assert packed.left_out[1].endswith("d/ (too deep)")


@pytest.mark.parametrize(
    "name", ["../x", "/x", "a/../../x", "a//b", "", "a\\..\\x", "C:x", "%2e%2e/x", "a/", "con", "a/."]
)
def test_a_name_that_could_lead_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    place = zipped(tmp_path / "a.zip", ("fine", b"x"), (name, b"x"))
    with pytest.raises(SnapshotError):
        unpack(place, folder(tmp_path / "b"), ROOM)
    assert list((tmp_path / "b").iterdir()) == []


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK, stat.S_IFDIR])
def test_what_is_no_plain_file_in_a_zip_is_refused(tmp_path: Path, kind: int) -> None:
    place = zipped(tmp_path / "a.zip", ("x", b"/etc/passwd"), mode=kind | 0o777)
    with pytest.raises(SnapshotError, match="no plain file"):
        unpack(place, folder(tmp_path / "b"), ROOM)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    large = zipped(tmp_path / "large.zip", ("x", bytes(2_000_000)))
    many = zipped(tmp_path / "many.zip", *((str(n), b"") for n in range(101)))
    with pytest.warns(UserWarning, match="Duplicate"):
        twice = zipped(tmp_path / "twice.zip", ("x", b"1"), ("x", b"2"))
    for place in (large, many, twice):
        with pytest.raises(SnapshotError):
            unpack(place, tmp_path, ROOM)


def test_a_zip_that_lies_about_a_size_is_refused(tmp_path: Path) -> None:
    place = zipped(tmp_path / "a.zip", ("x", bytes(500_000)))
    data = place.read_bytes()
    place.write_bytes(data.replace((500_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(SnapshotError):
        unpack(place, folder(tmp_path / "b"), ROOM)
    assert list((tmp_path / "b").iterdir()) == []


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 255))
def test_a_zip_with_any_byte_changed_is_refused_or_stays_in_its_folder(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, at: int, byte: int
) -> None:
    base = tmp_path_factory.mktemp("zip")
    place = zipped(base / "a.zip", ("a/b", data))
    spoilt = bytearray(place.read_bytes())
    spoilt[at % len(spoilt)] = byte
    place.write_bytes(spoilt)
    with contextlib.suppress(SnapshotError):
        unpack(place, folder(base / "out"), ROOM)
    assert sorted(path.name for path in base.iterdir()) == ["a.zip", "out"]


def test_a_file_with_the_same_content_is_left_as_it_is(tmp_path: Path) -> None:
    target = folder(tmp_path / "b")
    (target / "x").write_text("same")
    os.utime(target / "x", (1, 1))
    unpack(zipped(tmp_path / "a.zip", ("x", b"same"), ("y", b"new")), target, ROOM)
    assert (target / "x").stat().st_mtime == 1
    assert (target / "y").read_text() == "new"


def test_files_that_are_gone_are_removed_with_the_folders_that_are_empty_then(tmp_path: Path) -> None:
    for name in ("a/b/gone", "a/kept"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    remove_files(tmp_path, ("a/b/gone", "never/there"))
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["kept"]


def test_what_is_unpacked_for_a_program_is_the_programs(tmp_path: Path) -> None:
    unpack(zipped(tmp_path / "a.zip", ("in/x", b"x")), folder(tmp_path / "b"), ROOM, uid=1001)
    assert {(tmp_path / "b" / name).stat().st_uid for name in ("in", "in/x")} == {1001}
