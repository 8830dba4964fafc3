"""`timeloom verify --salvage`: everything readable of a damaged folder is written to a new one that is whole."""

import asyncio
import random
import shutil
from pathlib import Path
from typing import cast

import apsw
import pytest
from click.testing import CliRunner

from timeloom.cli import main
from timeloom.core.blocks import Attachment, ConversationStarted, Erased, Titled, TurnEnded, TurnStarted, UserPrompt
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.payload import ref_of
from timeloom.core.timeline import Draft, Entry
from timeloom.runtime.session.load_views import load_views
from timeloom.stores.blob_folder import tenant_folder
from timeloom.stores.sqlite import SqliteStore
from timeloom.stores.sqlite.database import Database
from timeloom.stores.sqlite.salvage import SalvageReport, salvage
from timeloom.testing.store_contract.fixtures import PATH, draft, header, thought

NAMES = [ConversationId(f"conv_{n:02d}") for n in range(8)]
State = dict[ConversationId, list[Entry]]


@pytest.fixture
def state(tmp_path: Path) -> State:
    """Eight conversations of thirty entries in the folder `data`."""

    async def fill() -> State:
        async with await SqliteStore.open(tmp_path / "data") as store:
            for name in NAMES:
                turn = TurnId("turn_1")
                blocks = [draft(Attachment(artifact_path=PATH, mime="a/b", data=name.encode() * 100))]
                blocks += [Draft(turn, blocks[0].ts, TurnStarted(n=1)), draft(UserPrompt(text=f"{name} " * 6000))]
                blocks += [draft(Titled(text=f"About {name}")), *(thought(f"{name} {n} " * 40) for n in range(24))]
                blocks += [Draft(turn, blocks[0].ts, TurnEnded(reason="completed"))]
                await store.append(name, 0, [header(), *blocks])
            return {name: await store.load(name) for name in NAMES}

    state = asyncio.run(fill())
    (tmp_path / "data" / "workspaces" / NAMES[0]).mkdir(parents=True)
    (tmp_path / "data" / "workspaces" / NAMES[0] / "file.txt").write_text("a file")
    return state


def execute(folder: Path, sql: str) -> None:
    connection = cast(Database, apsw.Connection(str(folder / "data" / "journal.db")))
    connection.execute(sql).fetchall()
    connection.close()


def salvaged(folder: Path) -> tuple[SalvageReport, State]:
    """Salvage the folder, make sure that the result is whole and can be used, and return its entries."""
    before = {path: path.read_bytes() for path in (folder / "data").rglob("*") if path.is_file()}

    async def use() -> tuple[SalvageReport, State]:
        report = await salvage(folder / "data", folder / "out")
        async with await SqliteStore.open(folder / "out") as store:
            state: State = {}
            for name in await store.conversation_ids():
                await load_views(store, name)
                state[name] = await store.load(name)
                await store.append(name, len(state[name]), [thought("on")])
            verified = await store.verify()
            assert (verified.findings, verified.orphans) == ((), 0)
            return report, state

    found = asyncio.run(use())
    after = {path: path.read_bytes() for path in (folder / "data").rglob("*") if path.is_file()}
    assert {path.name for path in before if after.get(path) != before[path]} <= {"journal.db-shm"}
    return found


def test_a_whole_folder_is_copied_completely(state: State, tmp_path: Path) -> None:
    report, found = salvaged(tmp_path)
    assert found == state
    assert (report.conversations, report.entries, report.lost_entries, report.notes) == (8, 240, 0, [])


@pytest.mark.parametrize("sql", ["DELETE FROM entries WHERE", "UPDATE entries SET record = zeroblob(9) WHERE"])
@pytest.mark.parametrize("seq", [1, 3, 9, 30])
def test_a_lost_entry_leaves_all_others_in_their_places(sql: str, seq: int, state: State, tmp_path: Path) -> None:
    execute(tmp_path, f"{sql} place = (4 << 32) + {seq}")
    report, found = salvaged(tmp_path)
    assert {name: found[name] for name in NAMES if name != NAMES[3]} == {
        name: state[name] for name in NAMES if name != NAMES[3]
    }
    kept, whole = found[NAMES[3]], state[NAMES[3]]
    assert [entry for entry in kept if entry.seq != seq] == [entry for entry in whole if entry.seq != seq]
    if seq == 30:
        assert len(kept) == 29
    else:
        assert isinstance(kept[seq - 1].block, ConversationStarted if seq == 1 else Erased)
    assert (report.lost_entries, len(report.notes)) == (1, 1)


def test_an_entry_whose_payload_is_lost_gets_its_erased_form(state: State, tmp_path: Path) -> None:
    ref = ref_of(NAMES[3].encode() * 100)
    (tmp_path / "data" / "blobs" / tenant_folder("tenant") / ref.sha256[:2] / ref.sha256).unlink()
    report, found = salvaged(tmp_path)
    assert report.lost_payloads == 1
    assert found[NAMES[3]][1].block.erased
    assert found[NAMES[3]][2:] == state[NAMES[3]][2:]


def test_entries_whose_conversation_is_gone_from_the_list_get_a_new_name(state: State, tmp_path: Path) -> None:
    execute(tmp_path, "DELETE FROM conversations WHERE n = 4")
    report, found = salvaged(tmp_path)
    assert found[ConversationId("conv_salvaged_4")] == state[NAMES[3]]
    assert "its id and owner are lost" in report.notes[0]


@pytest.mark.parametrize("part", [0.6, 0.7, 0.9])
def test_of_a_truncated_database_the_rest_is_written(part: float, state: State, tmp_path: Path) -> None:
    path = tmp_path / "data" / "journal.db"
    with path.open("r+b") as file:
        file.truncate(int(path.stat().st_size * part) // 4096 * 4096)
    report, found = salvaged(tmp_path)
    stored = {entry.block for entries in state.values() for entry in entries}
    kept = [entry for entries in found.values() for entry in entries if entry.block in stored]
    assert len(kept) > 20, report
    assert report.lost_entries or len(found) < len(state)


@pytest.mark.parametrize("seed", range(6))
def test_flipped_bytes_end_in_a_whole_folder(seed: int, state: State, tmp_path: Path) -> None:
    chance = random.Random(seed)
    path = tmp_path / "data" / "journal.db"
    data = bytearray(path.read_bytes())
    for _ in range(40):
        data[chance.randrange(4096, len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    _, found = salvaged(tmp_path)
    assert len(found) <= len(state) + 8


def test_without_a_journal_the_payloads_are_kept_beside(state: State, tmp_path: Path) -> None:
    (tmp_path / "data" / "journal.db").unlink()
    report, found = salvaged(tmp_path)
    assert (found, report.leftovers) == ({}, 16)
    kept = {path.name for path in (tmp_path / "out" / "leftovers" / "blobs").rglob("*") if path.is_file()}
    assert ref_of(NAMES[0].encode() * 100).sha256 in kept
    assert state


def test_a_file_that_is_no_database_has_payloads_only(state: State, tmp_path: Path) -> None:
    (tmp_path / "data" / "journal.db").write_bytes(b"This is a text file. " * 900)
    report, found = salvaged(tmp_path)
    assert (found, report.leftovers, len(state)) == ({}, 16, 8)


def test_the_command_salvages_a_folder_that_lost_its_log(state: State, tmp_path: Path) -> None:
    async def go_on() -> None:
        async with await SqliteStore.open(tmp_path / "data") as store:
            await store.append(NAMES[0], 30, [thought("lost")])
            await asyncio.to_thread(shutil.copytree, tmp_path / "data", tmp_path / "killed")

    asyncio.run(go_on())
    for name in ("journal.db-wal", "journal.db-shm"):
        (tmp_path / "killed" / name).unlink()
    arguments = ["verify", "--data-dir", str(tmp_path / "killed"), "--salvage", str(tmp_path / "new")]
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, "Salvaged conversations: 8, entries: 240" in done.output) == (0, True)
    assert (tmp_path / "new" / "workspaces" / NAMES[0] / "file.txt").read_text() == "a file"
    assert CliRunner().invoke(main, ["verify", "--data-dir", str(tmp_path / "new")]).exit_code == 0
    again = CliRunner().invoke(main, arguments)
    assert (again.exit_code, "not empty" in again.output) == (1, True)
    assert state


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_without_anything_is_a_usage_error(exists: bool, tmp_path: Path) -> None:
    if exists:
        (tmp_path / "data").mkdir()
    arguments = ["verify", "--data-dir", str(tmp_path / "data"), "--salvage", str(tmp_path / "new")]
    assert CliRunner().invoke(main, arguments).exit_code == 2


def test_damaged_audit_logs_are_kept_beside(state: State, tmp_path: Path) -> None:
    log = tmp_path / "data" / "audit" / "home" / "demo.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("")
    log.with_suffix(".head").write_text('{"size":100,"hash":"00"}')
    arguments = ["verify", "--data-dir", str(tmp_path / "data"), "--salvage", str(tmp_path / "new"), "--json"]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    assert (tmp_path / "new" / "leftovers" / "audit" / "home" / "demo.head").exists()
    assert CliRunner().invoke(main, ["verify", "--data-dir", str(tmp_path / "new")]).exit_code == 0
    assert state


def test_a_conversation_without_a_readable_entry_counts_as_lost(tmp_path: Path, state: State) -> None:
    execute(tmp_path, "DELETE FROM entries WHERE place < 2 << 32")
    report, kept = salvaged(tmp_path)
    assert set(kept) == set(state) - {NAMES[0]}
    assert (report.conversations, report.lost_entries) == (7, 30)
    assert report.notes == [f"conversation {NAMES[0]}: no entry is readable, lost entries: 30"]
