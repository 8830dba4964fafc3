"""The blob folder: names of tenants, staging that is given up, and folders that vanish."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.payload import ref_of
from timeloom.stores.blob_folder import BlobFolder, StagedPayloads, tenant_folder
from timeloom.stores.disk import Disk

SAFE = set("abcdefghijklmnopqrstuvwxyz0123456789_-")
DATA = b"a payload"
REF = ref_of(DATA)


@pytest.fixture
def blobs(tmp_path: Path) -> BlobFolder:
    folder = BlobFolder(tmp_path, Disk())
    folder.create_folders()
    return folder


@given(st.text(), st.text())
def test_tenants_have_folders_of_their_own_that_every_file_system_keeps_apart(one: str, other: str) -> None:
    assert set(tenant_folder(one)) <= SAFE
    assert len(tenant_folder(one)) <= 66
    assert (tenant_folder(one) == tenant_folder(other)) == (one == other)


def test_a_payload_is_written_without_having_been_staged(blobs: BlobFolder) -> None:
    blobs.publish("t", REF, DATA, None)
    assert blobs.read("t", REF) == DATA
    assert list(blobs.list_files()) == [("t_t", REF.sha256)]


def test_what_is_staged_after_its_append_was_given_up_is_taken_away(blobs: BlobFolder) -> None:
    staging = StagedPayloads(blobs)
    staging.add(ref_of(b"before"), b"before")
    staging.discard_unpublished()
    staging.add(REF, DATA)
    assert staging.get(REF) is None
    assert list(blobs.list_files()) == []


def test_a_staged_file_that_was_taken_away_is_written_again(blobs: BlobFolder) -> None:
    staged = blobs.stage(DATA)
    blobs.discard(staged)
    blobs.publish("t", REF, DATA, staged)
    assert blobs.read("t", REF) == DATA


def test_the_folder_of_staged_payloads_is_made_again(blobs: BlobFolder, tmp_path: Path) -> None:
    (tmp_path / "incoming").rmdir()
    blobs.publish("t", REF, DATA, None)
    assert blobs.find_damage("t", REF) is None


def test_strange_files_in_the_folder_are_strays(blobs: BlobFolder, tmp_path: Path) -> None:
    (tmp_path / "README").write_text("hello")
    (tmp_path / "t_t").mkdir()
    (tmp_path / "t_t" / "note").write_text("hello")
    assert list(blobs.list_files()) == []
