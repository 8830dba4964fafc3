"""A damaged store names the damage and its conversation, and serves everything else."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import cast

import apsw
import pytest

from timeloom.core.blocks import Attachment, Titled, UserPrompt
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef, ref_of
from timeloom.core.timeline import Entry
from timeloom.ports.reader import ConversationQuery
from timeloom.ports.store import StoreError, VerifyReport
from timeloom.stores.batch import record_crc
from timeloom.stores.blob_folder import tenant_folder
from timeloom.stores.sqlite import SqliteStore
from timeloom.stores.sqlite.database import Database
from timeloom.stores.sqlite.migrations import MIGRATIONS
from timeloom.testing.store_contract.fixtures import PATH, draft, header, thought

NAMES = [ConversationId(f"conv_{n:02d}") for n in range(20)]
SHARED = ref_of(b"shared" * 100)
COPY = "UPDATE entries SET (form, crc, record) = (SELECT form, crc, record FROM entries WHERE place ="
State = dict[ConversationId, list[Entry]]


@pytest.fixture
def state(tmp_path: Path) -> State:
    """Twenty conversations of thirty entries in the folder, each with an unshared and a shared payload."""

    async def fill() -> State:
        async with await SqliteStore.open(tmp_path) as store:
            for name in NAMES:
                blocks = [draft(Attachment(artifact_path=PATH, mime="a/b", data=b"shared" * 100))]
                blocks += [draft(UserPrompt(text=f"{name} " * 6000)), draft(Titled(text=f"About {name}"))]
                await store.append(name, 0, [header(), *blocks, *(thought(f"{name} {n} " * 40) for n in range(26))])
            return {name: await store.load(name) for name in NAMES}

    return asyncio.run(fill())


def changed(folder: Path, sql: str) -> None:
    """Does something to the database behind the store's back."""
    connection = cast(Database, apsw.Connection(str(folder / "journal.db")))
    connection.execute(sql).fetchall()
    connection.close()


async def outcome(store: SqliteStore, name: ConversationId) -> list[Entry] | CodedError:
    try:
        return await store.load(name)
    except CodedError as error:
        return error


def looked_at(folder: Path) -> tuple[dict[ConversationId, list[Entry] | CodedError], VerifyReport]:
    """Return the store's findings for each conversation and for itself."""

    async def look() -> tuple[dict[ConversationId, list[Entry] | CodedError], VerifyReport]:
        async with await SqliteStore.open(folder) as store:
            return {name: await outcome(store, name) for name in NAMES}, await store.verify()

    return asyncio.run(look())


def only_damaged(folder: Path, state: State, name: ConversationId, code: str) -> VerifyReport:
    """The check's outcome, after making sure that this conversation alone cannot be loaded."""
    found, verified = looked_at(folder)
    error = found[name]
    assert isinstance(error, CodedError) and error.code == code and name in str(error)
    assert {other for other in NAMES if found[other] != state[other]} == {name}
    assert {finding.conversation for finding in verified.findings} == {name}
    assert code in {finding.code for finding in verified.findings}
    return verified


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_of_a_truncated_database_the_rest_stays_readable(part: float, state: State, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(int(size * part) // 4096 * 4096)
    found, verified = looked_at(tmp_path)
    lost = [name for name in NAMES if found[name] != state[name]]
    assert 0 < len(lost) < len(NAMES)
    for name in lost:
        error = found[name]
        assert isinstance(error, StoreError) and name in str(error)
        assert name in {finding.conversation for finding in verified.findings}
    assert path.stat().st_size < size


def test_a_truncated_database_is_not_written(state: State, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 4096 // 2 * 4096)
    before = path.read_bytes()

    async def write() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            with pytest.raises(StoreError, match=f"{NAMES[0]} cannot be changed") as caught:
                await store.append(NAMES[0], len(state[NAMES[0]]), [thought("more")])
            assert caught.value.code == "store_damaged"
            with pytest.raises(StoreError):
                await store.delete(NAMES[0])
            assert await store.read_blob("tenant", SHARED) == b"shared" * 100

    asyncio.run(write())
    assert path.read_bytes() == before


@pytest.mark.parametrize("seed", range(30))
def test_flipped_bytes_are_never_taken_for_what_was_stored(seed: int, state: State, tmp_path: Path) -> None:
    chance = random.Random(seed)
    path = tmp_path / "journal.db"
    data = bytearray(path.read_bytes())
    page = chance.randrange(1, len(data) // 4096) * 4096
    for _ in range(chance.choice([1, 5, 50])):
        data[page + chance.randrange(4096)] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    try:
        found, verified = looked_at(tmp_path)
    except StoreError as error:
        # Only where the description of the tables themselves was hit.
        assert error.code == "store_damaged"
        return
    for name in NAMES:
        if found[name] != state[name]:
            error = found[name]
            assert isinstance(error, CodedError) and name in str(error)
            assert verified.findings


@pytest.mark.parametrize("seed", range(10))
def test_searching_and_writing_a_damaged_database_fail_with_a_code_or_work(
    seed: int, state: State, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    path = tmp_path / "journal.db"
    data = bytearray(path.read_bytes())
    for _ in range(60):
        data[chance.randrange(4096, len(data))] ^= 0xFF
    path.write_bytes(data)

    async def use() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            for attempt in (
                lambda: store.conversations(ConversationQuery(tenant="tenant", words="conv")),
                lambda: store.append(NAMES[3], len(state[NAMES[3]]), [thought("more"), draft(Titled(text="New"))]),
                lambda: store.append(ConversationId("conv_new"), 0, [header(), draft(UserPrompt(text="hello"))]),
                lambda: store.delete(NAMES[5]),
                store.verify,
            ):
                try:
                    await attempt()
                except CodedError as error:
                    assert error.code in {"store_damaged", "conversation_unknown", "conflict"}

    try:
        asyncio.run(use())
    except StoreError as error:
        assert error.code == "store_damaged"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("UPDATE entries SET record = zeroblob(10) WHERE place = (4 << 32) + 9", "entry_damaged"),
        ("UPDATE entries SET crc = crc + 1 WHERE place = (4 << 32) + 9", "entry_damaged"),
        ("UPDATE entries SET form = 99 WHERE place = (4 << 32) + 9", "store_format_unknown"),
        ("DELETE FROM entries WHERE place = (4 << 32) + 9", "seq_gap"),
        ("DELETE FROM entries WHERE place BETWEEN (4 << 32) + 25 AND (4 << 32) + 99", "seq_gap"),
        ("DELETE FROM entries WHERE place BETWEEN (4 << 32) AND (4 << 32) + 99", "seq_gap"),
        ("UPDATE conversations SET tail = 20 WHERE n = 4", "store_damaged"),
        (f"{COPY} (4 << 32) + 8) WHERE place = (4 << 32) + 9", "entry_damaged"),
        (f"{COPY} (5 << 32) + 9) WHERE place = (4 << 32) + 9", "entry_damaged"),
    ],
)
def test_a_changed_row_damages_its_conversation_only(change: str, code: str, state: State, tmp_path: Path) -> None:
    changed(tmp_path, change)
    only_damaged(tmp_path, state, NAMES[3], code)


def test_what_lies_before_the_damage_loads(state: State, tmp_path: Path) -> None:
    changed(tmp_path, "UPDATE entries SET record = zeroblob(10) WHERE place = (4 << 32) + 9")

    async def load() -> list[Entry]:
        async with await SqliteStore.open(tmp_path) as store:
            return await store.load(NAMES[3], 0, 8)

    assert asyncio.run(load()) == state[NAMES[3]][:8]


def test_a_record_that_was_never_an_entry_is_damage_even_with_its_checksum(state: State, tmp_path: Path) -> None:
    record = b'{"not": "an entry"}'
    crc = record_crc(NAMES[3], 9, record)
    changed(tmp_path, f"UPDATE entries SET crc = {crc}, record = x'{record.hex()}' WHERE place = (4 << 32) + 9")
    only_damaged(tmp_path, state, NAMES[3], "entry_damaged")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def torn(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def renamed(path: Path) -> None:
    path.rename(path.with_name("0" * 64))


def made_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def made_a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("harm", "code", "orphans"),
    [
        (cut, "blob_damaged", 0),
        (torn, "blob_damaged", 0),
        (Path.unlink, "blob_missing", 0),
        (renamed, "blob_missing", 1),
        (made_a_folder, "blob_damaged", 0),
        (made_a_link, "blob_damaged", 1),
    ],
)
def test_a_damaged_payload_is_named_with_its_conversation(
    harm: Callable[[Path], None], code: str, orphans: int, state: State, tmp_path: Path
) -> None:
    block = state[NAMES[3]][2].block
    assert isinstance(block, UserPrompt) and isinstance(block.text, BlobRef)
    own = block.text
    harm(tmp_path / "blobs" / tenant_folder("tenant") / own.sha256[:2] / own.sha256)
    found, verified = looked_at(tmp_path)
    assert found == state
    assert [(finding.code, finding.conversation, finding.seq) for finding in verified.findings] == [(code, NAMES[3], 3)]
    assert verified.orphans == orphans

    async def read() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            with pytest.raises(CodedError, match=own.sha256) as caught:
                await store.read_blob("tenant", own)
            assert caught.value.code == code
            assert str(tmp_path) not in str(caught.value)

    asyncio.run(read())


def test_a_lost_shared_payload_is_reported_for_every_conversation_that_uses_it(state: State, tmp_path: Path) -> None:
    (tmp_path / "blobs" / tenant_folder("tenant") / SHARED.sha256[:2] / SHARED.sha256).unlink()
    _, verified = looked_at(tmp_path)
    assert [finding.conversation for finding in verified.findings] == list(state)


def test_an_append_mends_a_payload_that_was_cut(state: State, tmp_path: Path) -> None:
    path = tmp_path / "blobs" / tenant_folder("tenant") / SHARED.sha256[:2] / SHARED.sha256
    cut(path)

    async def append() -> VerifyReport:
        async with await SqliteStore.open(tmp_path) as store:
            again = draft(Attachment(artifact_path=PATH, mime="a/b", data=b"shared" * 100))
            await store.append(NAMES[0], len(state[NAMES[0]]), [again])
            return await store.verify()

    assert asyncio.run(append()).findings == ()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE conversations SET title = 'Another' WHERE n = 4",
        "UPDATE conversations SET tenant = 'other' WHERE n = 4",
        "UPDATE conversations SET last_ts = started_ts || 'x' WHERE n = 4",
        "DELETE FROM payloads WHERE n = 4",
    ],
)
def test_a_list_that_disagrees_with_the_entries_is_found(change: str, state: State, tmp_path: Path) -> None:
    changed(tmp_path, change)
    found, verified = looked_at(tmp_path)
    assert found == state
    assert {finding.conversation for finding in verified.findings} == {NAMES[3]}
    assert "store_damaged" in {finding.code for finding in verified.findings}


@pytest.mark.parametrize("number", [1, 4, 20])
def test_entries_whose_conversation_is_gone_from_the_list_are_found(number: int, state: State, tmp_path: Path) -> None:
    changed(tmp_path, f"DELETE FROM conversations WHERE n = {number}")
    _, verified = looked_at(tmp_path)
    assert verified.conversations == len(state) - 1
    assert [finding.code for finding in verified.findings] == ["store_damaged"]
    assert f"number {number}" in verified.findings[0].message


def test_leftovers_of_appends_are_counted_and_harm_nothing(state: State, tmp_path: Path) -> None:
    folder = tmp_path / "blobs" / tenant_folder("tenant") / "ab"
    folder.mkdir(exist_ok=True)
    (folder / ("ab" + "0" * 62)).write_bytes(b"nobody's")
    (tmp_path / "blobs" / "incoming" / "tmpx").write_bytes(b"half")
    found, verified = looked_at(tmp_path)
    assert found == state
    assert (verified.findings, verified.orphans) == ((), 1)
    assert list((tmp_path / "blobs" / "incoming").iterdir()) == []


def opened_with_error(folder: Path) -> StoreError:
    async def attempt() -> None:
        await SqliteStore.open(folder)

    with pytest.raises(StoreError) as caught:
        asyncio.run(attempt())
    assert str(folder) not in str(caught.value)
    return caught.value


def test_a_newer_format_is_refused_with_what_to_do(state: State, tmp_path: Path) -> None:
    changed(tmp_path, f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    error = opened_with_error(tmp_path)
    assert error.code == "store_format_unknown"
    assert "newer" in str(error)
    changed(tmp_path, f"PRAGMA user_version = {len(MIGRATIONS)}")
    assert looked_at(tmp_path)[0] == state


@pytest.mark.parametrize("sql", ["CREATE TABLE t(x)", "PRAGMA application_id = 5", "PRAGMA user_version = 5"])
def test_a_database_of_another_program_is_refused_and_left_alone(sql: str, tmp_path: Path) -> None:
    changed(tmp_path, sql)
    error = opened_with_error(tmp_path)
    assert (error.code, "another program" in str(error)) == ("store_format_unknown", True)
    connection = cast(Database, apsw.Connection(str(tmp_path / "journal.db")))
    assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'entries'").fetchall() == [(0,)]
    connection.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"This is a text file, and not a short one. " * 200)
    assert opened_with_error(tmp_path).code == "store_damaged"


def test_a_changed_description_of_a_table_is_found(state: State, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(path.read_bytes().replace(b"title_seq INTEGER NOT NULL", b"title_sex INTEGER NOT NULL"))
    found, verified = looked_at(tmp_path)
    assert all(isinstance(error, StoreError) and name in str(error) for name, error in found.items())
    assert {finding.code for finding in verified.findings} == {"store_damaged"}
    assert "'conversations'" in verified.findings[0].message
    assert state


def test_a_damaged_first_page_is_refused(state: State, tmp_path: Path) -> None:
    assert state
    path = tmp_path / "journal.db"
    data = bytearray(path.read_bytes())
    data[100:4096] = random.Random(1).randbytes(3996)
    path.write_bytes(data)
    assert opened_with_error(tmp_path).code == "store_damaged"


def leaf_pages(folder: Path, table: str) -> list[int]:
    connection = cast(Database, apsw.Connection(str(folder / "journal.db")))
    sql = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path"
    pages = [int(page) for (page,) in connection.execute(sql, (table,)).fetchall()]
    connection.close()
    return pages


def wipe(folder: Path, page: int) -> None:
    with (folder / "journal.db").open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(bytes(4096))


def test_when_a_part_of_the_list_is_lost_the_check_goes_on_with_the_rest(tmp_path: Path) -> None:
    count = 150

    async def fill() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            for n in range(count):
                await store.append(ConversationId(f"conv_{n}"), 0, [header(), thought(f"{n}")])

    async def check() -> VerifyReport:
        async with await SqliteStore.open(tmp_path) as store:
            return await store.verify()

    asyncio.run(fill())
    wipe(tmp_path, leaf_pages(tmp_path, "conversations")[1])
    verified = asyncio.run(check())
    lost = [finding for finding in verified.findings if "whose id is unknown" in finding.message]
    assert lost
    assert verified.conversations + len(lost) == count


@pytest.mark.parametrize("table", ["entries", "conversations", "conversations_newest", "payloads", "said_data"])
def test_a_lost_page_of_any_table_ends_in_codes_and_findings(table: str, state: State, tmp_path: Path) -> None:
    wipe(tmp_path, leaf_pages(tmp_path, table)[0])

    async def use() -> VerifyReport:
        async with await SqliteStore.open(tmp_path) as store:
            for name in NAMES:
                found = await outcome(store, name)
                assert found == state[name] or (isinstance(found, StoreError) and name in str(found))
            try:
                await store.conversations(ConversationQuery(tenant="tenant", words="conv"))
            except StoreError as error:
                assert error.code == "store_damaged"
            return await store.verify()

    assert asyncio.run(use()).findings


def test_a_follower_of_a_damaged_conversation_is_told(state: State, tmp_path: Path) -> None:
    changed(tmp_path, "UPDATE entries SET record = zeroblob(10) WHERE place = (4 << 32) + 9")

    async def follow() -> list[int]:
        async with await SqliteStore.open(tmp_path) as store:
            return [entry.seq async for entry in store.follow(NAMES[3], 5)]

    assert state
    with pytest.raises(StoreError, match=NAMES[3]):
        asyncio.run(follow())
