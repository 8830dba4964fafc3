"""Snapshots that are damaged, foreign or of a deleted conversation are as if they were not there."""

from pathlib import Path

import pytest

from timeloom.core.ids import ConversationId
from timeloom.stores.snapshot_folder import SnapshotFolder

NAME = ConversationId("conv_a")


@pytest.fixture
def folder(tmp_path: Path) -> SnapshotFolder:
    snapshots = SnapshotFolder(tmp_path / "snapshots")
    snapshots.save(NAME, 1, 5, "v1", b"views")
    return snapshots


def the_file(tmp_path: Path) -> Path:
    (path,) = (path for path in (tmp_path / "snapshots").rglob("*") if path.is_file())
    return path


@pytest.mark.parametrize("cut_at", [0, 1, 20, -1])
def test_a_torn_snapshot_is_ignored_and_replaced(cut_at: int, folder: SnapshotFolder, tmp_path: Path) -> None:
    path = the_file(tmp_path)
    path.write_bytes(path.read_bytes()[:cut_at])
    assert folder.load(NAME, 1, "v1") is None
    folder.save(NAME, 1, 6, "v1", b"again")
    assert folder.load(NAME, 1, "v1") == (6, b"again")


@pytest.mark.parametrize(("before", "after"), [(b'"seq":5', b'"seq":4'), (b"views", b"viewz"), (b"v1", b"v2")])
def test_a_changed_snapshot_is_ignored(before: bytes, after: bytes, folder: SnapshotFolder, tmp_path: Path) -> None:
    path = the_file(tmp_path)
    path.write_bytes(path.read_bytes().replace(before, after))
    assert folder.load(NAME, 1, "v1") is None


def test_a_snapshot_of_a_conversation_that_had_the_name_before_is_ignored_and_replaced(folder: SnapshotFolder) -> None:
    assert folder.load(NAME, 2, "v1") is None
    folder.save(NAME, 2, 1, "v1", b"young")
    assert folder.load(NAME, 2, "v1") == (1, b"young")


def test_snapshots_can_be_dropped_where_there_are_none(tmp_path: Path) -> None:
    assert SnapshotFolder(tmp_path / "none").remove_all() == 0
    SnapshotFolder(tmp_path / "none").remove(NAME)
