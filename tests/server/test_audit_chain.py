"""Each line of the audit log has the hash of the line before it, and `timeloom verify` finds changes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from timeloom.cli import main
from timeloom.server.auth.audit_log import AuditEntry, AuditLog, AuditQuery, verify_audit_logs
from timeloom.stores.sqlite import SqliteStore


def entry(n: int) -> AuditEntry:
    ts = "2026-01-01T00:00:00Z"
    return AuditEntry(
        id=str(n), ts=ts, tenant="home", project="demo", user="root", role="admin", operation=f"operation_{n}"
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    async def fill() -> None:
        for n in range(1, 6):
            # A new object each time, as after a restart of the server.
            await AuditLog(tmp_path / "audit").add(entry(n))

    asyncio.run(fill())
    return tmp_path / "audit" / "home" / "demo.jsonl"


def codes(log: Path) -> list[str]:
    return [problem.code for problem in verify_audit_logs(log.parents[1])[1]]


def test_a_log_that_nobody_touched_holds_and_reads_as_before(log: Path) -> None:
    assert verify_audit_logs(log.parents[1]) == (5, [])
    page = asyncio.run(AuditLog(log.parents[1]).page("home", "demo", AuditQuery()))
    assert page.entries == tuple(entry(n) for n in range(1, 6))
    assert msgspec.to_builtins(page.entries[0]).keys() == msgspec.to_builtins(entry(1)).keys()


def edit(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b"operation_2", b"operation_9") for line in lines]


def edit_last(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b"operation_5", b"operation_9") for line in lines]


def drop(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], *lines[3:]]


def drop_first(lines: list[bytes]) -> list[bytes]:
    return lines[1:]


def swap(lines: list[bytes]) -> list[bytes]:
    return [lines[0], lines[2], lines[1], *lines[3:]]


def cut(lines: list[bytes]) -> list[bytes]:
    return lines[:3]


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (edit, "chain_broken"),
        (edit_last, "chain_broken"),
        (drop, "chain_broken"),
        (drop_first, "chain_broken"),
        (swap, "chain_broken"),
        (cut, "journal_truncated"),
    ],
)
def test_a_changed_log_is_found(harm: Callable[[list[bytes]], list[bytes]], code: str, log: Path) -> None:
    log.write_bytes(b"".join(harm(log.read_bytes().splitlines(keepends=True))))
    assert codes(log) == [code]


def test_a_log_that_is_gone_is_found(log: Path) -> None:
    log.unlink()
    assert codes(log) == ["journal_truncated"]


def test_a_line_that_a_power_cut_left_incomplete_breaks_nothing(log: Path) -> None:
    log.write_bytes(log.read_bytes() + b'{"id":"6","ts":"20')
    asyncio.run(AuditLog(log.parents[1]).add(entry(7)))
    assert verify_audit_logs(log.parents[1]) == (6, [])


def test_a_log_of_an_older_version_is_chained_from_its_next_entry_on(log: Path) -> None:
    log.write_bytes(b"".join(msgspec.json.encode(entry(n)) + b"\n" for n in range(1, 4)))
    log.with_suffix(".head").unlink()
    assert verify_audit_logs(log.parents[1]) == (3, [])
    for n in (4, 5):
        asyncio.run(AuditLog(log.parents[1]).add(entry(n)))
    assert verify_audit_logs(log.parents[1]) == (5, [])
    log.write_bytes(log.read_bytes().replace(b"operation_4", b"operation_9"))
    assert codes(log) == ["chain_broken"]


def test_verify_names_the_log(log: Path) -> None:
    async def create() -> None:
        async with await SqliteStore.open(log.parents[2]):
            pass

    asyncio.run(create())
    arguments = ["verify", "--data-dir", str(log.parents[2])]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    log.write_bytes(log.read_bytes().replace(b"operation_2", b"operation_9"))
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 1
    assert "line 2 of the audit log home/demo" in done.output
