"""An archive brings conversations to another data folder with every hash, and hostile archives bring nothing."""

import asyncio
import contextlib
import os
import shutil
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.archive import (
    TS,
    TURN,
    Members,
    add_conversation,
    check_archive,
    pack,
    read_archive,
    unpack,
    write_archive,
)
from timeloom.core.blocks import ConversationStarted, Thinking, UserPrompt
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.runtime.archive.import_conversations import ImportResult
from timeloom.runtime.archive.read_exports import iter_exports
from timeloom.runtime.archive.tar_members import iter_lines, iter_members, read_member, write_member
from timeloom.runtime.archive.write_archive import ArchiveWriter
from timeloom.runtime.read.export import export_timeline
from timeloom.stores.sqlite import SqliteStore
from timeloom.wire.archive import ArchivedFile

LOGS = sorted(path for path in (Path(__file__).parents[3] / "golden" / "logs").iterdir() if path.is_dir())
A, B = ConversationId("conv_a"), ConversationId("conv_b")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    data = tmp_path_factory.mktemp("archive") / "data"

    async def make() -> bytes:
        async with await SqliteStore.open(data) as store:
            for name in (A, B):
                await add_conversation(store, data, name)
            return await write_archive(store, data)

    return asyncio.run(make())


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    data = tmp_path_factory.mktemp("export") / "data"

    async def make() -> bytes:
        async with await SqliteStore.open(data) as store:
            drafts = [Draft(TURN, TS, block) for block in (UserPrompt(text="hi"), Thinking(round=1, text="why"))]
            header = Draft(NO_TURN, TS, ConversationStarted(tenant="t", project="p", user="u"))
            await store.append(A, 0, [header, *drafts])
            return b"".join([piece async for piece in export_timeline(store, A)])

    return asyncio.run(make())


@pytest.mark.parametrize("folder", LOGS, ids=lambda folder: folder.name)
def test_a_folder_of_every_version_moves_with_all_hashes(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "old")

    async def move() -> None:
        async with (
            await SqliteStore.open(tmp_path / "old") as old,
            await SqliteStore.open(tmp_path / "new") as new,
        ):
            archived = await write_archive(old, tmp_path / "old")
            await read_archive(new, tmp_path / "new", archived)
            assert await write_archive(new, tmp_path / "new") == archived
            before, after = await old.verify(), await new.verify()
            assert after == before
            for name in await old.conversation_ids():
                assert await new.info(name) == await old.info(name)
                assert await new.load(name) == await old.load(name)
                assert await new.load_chain(name) == await old.load_chain(name)
                assert await new.load_heads(name) == await old.load_heads(name)

    asyncio.run(move())


def test_files_come_with_their_content_mode_and_time(archive: bytes, tmp_path: Path) -> None:
    results = import_into(tmp_path, archive)
    assert [(one.conversation, one.outcome, one.files, one.payloads) for one in results] == [
        (A, "imported", 2, 2),
        (B, "imported", 2, 2),
    ]
    listed = [
        msgspec.json.decode(line, type=ArchivedFile)
        for line in dict(unpack(archive))[f"conversations/{B}/files.jsonl"].splitlines()
    ]
    for file in listed:
        path = tmp_path / "workspaces" / B / file.path
        assert path.stat().st_size == file.size_bytes
        assert path.stat().st_mtime_ns == file.mtime_us * 1000
        assert path.stat().st_mode & 0o777 == file.mode
    assert (tmp_path / "workspaces" / B / "turn_1/outputs/sub/b.csv").read_text() == "conv_b,1\n"
    assert not (tmp_path / "importing").exists() or not any((tmp_path / "importing").iterdir())


def test_a_payload_of_two_conversations_is_in_the_archive_once(archive: bytes) -> None:
    names = [name for name, _ in unpack(archive)]
    assert len([name for name in names if name.startswith("payloads/")]) == 3
    assert len(set(names)) == len(names)
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        assert tar.getnames() == names


def test_what_exists_is_refused_or_skipped(archive: bytes, tmp_path: Path) -> None:
    import_into(tmp_path, archive)
    with pytest.raises(CodedError) as refused:
        import_into(tmp_path, archive)
    assert refused.value.code == "conversation_exists"
    assert [one.outcome for one in import_into(tmp_path, archive, skip_existing=True)] == ["skipped", "skipped"]


def test_an_open_turn_is_imported_only_on_request(tmp_path: Path) -> None:
    async def run() -> list[str]:
        codes: list[str] = []
        async with await SqliteStore.open(tmp_path / "a") as store, await SqliteStore.open(tmp_path / "b") as other:
            await add_conversation(store, tmp_path / "a", A, ended=False)
            archived = await write_archive(store, tmp_path / "a")
            try:
                await read_archive(other, tmp_path / "b", archived, open_turns=False)
            except CodedError as error:
                codes.append(error.code)
            (result,) = await read_archive(other, tmp_path / "b", archived, open_turns=True)
            assert (result.is_open, await other.open_turns()) == (True, [A])
        return codes

    assert asyncio.run(run()) == ["turn_open"]


def test_links_and_names_that_no_path_has_are_left_out_and_counted(tmp_path: Path) -> None:
    async def run() -> tuple[int, int]:
        async with await SqliteStore.open(tmp_path) as store:
            await add_conversation(store, tmp_path, A)
            here = tmp_path / "workspaces" / A / "turn_1" / "files"
            (here / "link").symlink_to("/etc/passwd")
            (here / "hard").hardlink_to(here / "a.md")
            os.mkfifo(here / "pipe")
            counts = await ArchiveWriter(BytesIO()).add(store, A, tmp_path / "workspaces")
            return counts.files, counts.left_out

    assert asyncio.run(run()) == (1, 4)


def test_a_damaged_conversation_leaves_no_trace_in_the_archive(tmp_path: Path) -> None:
    async def run() -> int:
        async with await SqliteStore.open(tmp_path) as store:
            for name in (A, B):
                await add_conversation(store, tmp_path, name)
            out = BytesIO()
            writer = ArchiveWriter(out)
            await writer.add(store, A, tmp_path / "workspaces")
            for path in (tmp_path / "blobs").glob("t_*/*/*"):
                path.write_bytes(b"other")
            with pytest.raises(CodedError):
                await writer.add(store, B, tmp_path / "workspaces")
            writer.finish()
            return check_archive(out.getvalue())

    assert asyncio.run(run()) == 1


def replace_member(suffix: str, change: Callable[[bytes], bytes]) -> Callable[[Members], Members]:
    return lambda members: [(name, change(data) if name.endswith(suffix) else data) for name, data in members]


def rename_file(path: str) -> Callable[[Members], Members]:
    def change(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        first = msgspec.structs.replace(msgspec.json.decode(lines[0], type=ArchivedFile), path=path)
        return msgspec.json.encode(first) + b"\n" + b"".join(lines[1:])

    return replace_member(f"{A}/files.jsonl", change)


HOSTILE: dict[str, tuple[str, Callable[[Members], Members]]] = {
    "empty": ("archive_malformed", lambda _: []),
    "without manifest": ("archive_malformed", lambda members: members[1:]),
    "of another program": ("archive_malformed", replace_member("timeloom.json", lambda _: b'{"format":"other"}')),
    "of a newer version": (
        "store_format_unknown",
        replace_member("timeloom.json", lambda _: b'{"format":"timeloom.archive","version":2}'),
    ),
    "without end": ("archive_malformed", lambda members: members[:-1]),
    "with another count": ("archive_malformed", replace_member("end.json", lambda _: b'{"conversations":3}')),
    "with more after the end": ("archive_malformed", lambda members: [*members, ("more", b"")]),
    "with a conversation twice": (
        "archive_malformed",
        lambda members: [
            *members[:-1],
            *[pair for pair in members if "conv_b" in pair[0]],
            ("end.json", b'{"conversations":3}'),
        ],
    ),
    "with a foreign member": (
        "archive_malformed",
        lambda members: [*members[:2], ("conversations/conv_a/evil", b""), *members[2:]],
    ),
    "with a member of another conversation": (
        "archive_malformed",
        replace_member(f"{A}/conversation.json", lambda data: data.replace(b"conv_a", b"conv_c")),
    ),
    "with a missing payload": ("blob_missing", lambda members: [one for one in members if "payloads/" not in one[0]]),
    "with a changed payload": (
        "blob_damaged",
        lambda members: [
            (name, data.replace(b"conv_a", b"conv_x") if "payloads/" in name else data) for name, data in members
        ],
    ),
    "with an unneeded payload": (
        "archive_malformed",
        lambda members: [
            pair
            for one in members
            for pair in ([one, ("payloads/" + "0" * 64, b"")] if one[0].endswith(f"{A}/files.jsonl") else [one])
        ],
    ),
    "with a changed record": (
        "chain_broken",
        replace_member(f"{A}/entries.jsonl", lambda data: data.replace(b"cheapest", b"dearest")),
    ),
    "with a record less": (
        "archive_malformed",
        replace_member(f"{A}/entries.jsonl", lambda data: data.partition(b"\n")[2]),
    ),
    "with a cut line": ("archive_malformed", replace_member(f"{A}/entries.jsonl", lambda data: data[:-1])),
    "with a foreign field": (
        "archive_malformed",
        replace_member(f"{A}/entries.jsonl", lambda data: data.replace(b'"seq"', b'"x":1,"seq"')),
    ),
    "with a hash that is none": (
        "archive_malformed",
        replace_member(f"{A}/conversation.json", lambda data: data.replace(b'"head":"', b'"head":"z')),
    ),
    "with another tail": (
        "archive_malformed",
        replace_member(f"{A}/conversation.json", lambda data: data.replace(b'"tail":6', b'"tail":7')),
    ),
    "with a head of another entry": (
        "chain_broken",
        replace_member(f"{A}/heads.jsonl", lambda data: data.replace(b'"seq":6', b'"seq":5')),
    ),
    "with a head beyond the end": (
        "chain_broken",
        replace_member(f"{A}/heads.jsonl", lambda data: data.replace(b'"seq":6', b'"seq":9')),
    ),
    "with a head of another conversation": (
        "archive_malformed",
        replace_member(f"{A}/heads.jsonl", lambda data: data.replace(b"conv_a", b"conv_b")),
    ),
    "with a file outside": ("archive_malformed", rename_file("turn_1/files/../../../../etc/x")),
    "with an absolute file": ("archive_malformed", rename_file("/etc/passwd")),
    "with a file of no turn": ("archive_malformed", rename_file("journal.db")),
    "with an undo file": ("archive_malformed", rename_file("turn_1/files/.part-x")),
    "with a deep file": ("archive_malformed", rename_file("turn_1/files/" + "a/" * 70 + "b")),
    "with a file twice": ("archive_malformed", rename_file("turn_1/outputs/sub/b.csv")),
    "with a file in place of a folder": ("archive_malformed", rename_file("turn_1/outputs/sub")),
    "with a changed file": (
        "blob_damaged",
        replace_member(f"{A}/files/1", lambda data: b"x" * len(data)),
    ),
    "with a setuid file": (
        "archive_malformed",
        replace_member(f"{A}/files.jsonl", lambda data: data.replace(b'"mode":', b'"mode":4')),
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_with_a_code(name: str, archive: bytes) -> None:
    code, change = HOSTILE[name]
    with pytest.raises(CodedError) as refused:
        check_archive(pack(change(unpack(archive))))
    assert refused.value.code == code, str(refused.value)


def test_members_after_the_end_are_named_as_such(archive: bytes) -> None:
    with pytest.raises(CodedError, match=r"the archive has members after its end\.json"):
        check_archive(pack([*unpack(archive), ("more", b"")]))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.XHDTYPE, tarfile.FIFOTYPE])
def test_only_regular_members_are_accepted(kind: bytes, archive: bytes) -> None:
    info = tarfile.TarInfo("conversations/evil")
    info.type, info.linkname = kind, "/etc/passwd"
    with pytest.raises(CodedError, match="no export writes"):
        check_archive(info.tobuf(tarfile.USTAR_FORMAT) + archive)


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "a//b", "a/../b", "é", "a b", ".hidden"])
def test_unsafe_names_of_members_are_refused(name: str) -> None:
    data = tarfile.TarInfo(name).tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")
    with pytest.raises(CodedError):
        list(iter_members(BytesIO(data)))


def test_a_size_that_is_not_there_costs_nothing() -> None:
    info = tarfile.TarInfo("timeloom.json")
    info.size = 8 * 1024**3 - 1
    with pytest.raises(CodedError) as refused:
        check_archive(info.tobuf(tarfile.USTAR_FORMAT))
    assert refused.value.code == "archive_malformed"


def test_a_line_has_a_limit_and_an_end() -> None:
    out = BytesIO()
    write_member(out, "lines", BytesIO(b"one\ntwo\n" + b"x" * 100), 108)
    (member,) = iter_members(BytesIO(out.getvalue() + bytes(512)))
    with pytest.raises(CodedError, match="at most 50 bytes"):
        list(iter_lines(out, member, 50))
    with pytest.raises(CodedError, match="no end"):
        list(iter_lines(out, member, 500))
    with pytest.raises(CodedError, match="at most 5 bytes"):
        read_member(out, member, 5)


def test_a_file_that_became_shorter_ends_the_export() -> None:
    with pytest.raises(CodedError, match="became shorter"):
        write_member(BytesIO(), "a", BytesIO(b"12"), 3)
    with pytest.raises(CodedError, match="at most"):
        write_member(BytesIO(), "a", BytesIO(), 9 * 1024**3)


@given(data=st.data())
def test_no_change_of_an_archive_is_accepted_or_crashes(archive: bytes, data: st.DataObject) -> None:
    where = data.draw(st.integers(0, len(archive) - 1))
    replaced = data.draw(st.binary(min_size=0, max_size=4))
    changed = archive[:where] + replaced + archive[where + data.draw(st.integers(0, 600)) :]
    try:
        found = check_archive(changed)
    except CodedError:
        return
    # Only the padding between members, and fields of a header that nothing reads, may differ.
    assert found == 2
    assert unpack(changed) == unpack(archive)


@given(data=st.data())
def test_no_change_of_an_export_in_json_crashes(exported: bytes, data: st.DataObject) -> None:
    where = data.draw(st.integers(0, len(exported) - 1))
    replaced = data.draw(st.sampled_from((b"", b"x", b"0", b'"', b"{", b"null", b"[[", b"\\", b"\xff")))
    changed = exported[:where] + replaced + exported[where + data.draw(st.integers(0, 40)) :]
    with contextlib.suppress(CodedError):
        list(iter_exports(BytesIO(changed)))


@pytest.mark.parametrize("old", [b'"salt":"', b'"before":"', b'"head":"', b'"seq":', b'"sha256":"'])
@pytest.mark.parametrize("new", [b"z", b"\\ud800", b"-1", b'",'])
def test_a_changed_hash_of_an_export_is_refused(exported: bytes, old: bytes, new: bytes) -> None:
    if old in exported:
        with pytest.raises(CodedError):
            list(iter_exports(BytesIO(exported.replace(old, old + new, 1))))


def import_into(data: Path, archive: bytes, *, skip_existing: bool = False) -> list[ImportResult]:
    async def run() -> list[ImportResult]:
        async with await SqliteStore.open(data) as store:
            results = await read_archive(store, data, archive, skip_existing=skip_existing)
            assert (await store.verify()).findings == ()
            return list(results)

    return asyncio.run(run())
