"""`timeloom retention` from outside, and the setting in a worker."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from timeloom.core.blocks import ConversationStarted
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.stores.sqlite import SqliteStore


def add_conversations(data: Path) -> None:
    async def add() -> None:
        async with await SqliteStore.open(data) as store:
            for year in (2020, 2021, 2999):
                header = ConversationStarted(tenant="t", project="p", user="u")
                draft = Draft(NO_TURN, f"{year}-02-09T02:14:32.676425Z", header)
                await store.append(ConversationId(f"conv_{year}"), 0, [draft])

    asyncio.run(add())


def timeloom(*arguments: str, data: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "timeloom", *arguments, "--data-dir", str(data)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environ)


def test_old_conversations_are_listed_kept_and_deleted(tmp_path: Path) -> None:
    add_conversations(tmp_path)
    without = timeloom("retention", data=tmp_path)
    assert (without.returncode, "retention.days" in without.stderr) == (2, True)
    listed = timeloom("retention", "--days", "90", "--dry-run", "--json", data=tmp_path)
    assert [(one["conversation"], one["outcome"]) for one in map(json.loads, listed.stdout.splitlines())] == [
        ("conv_2020", "due"),
        ("conv_2021", "due"),
    ]
    assert timeloom("retention", "--keep", "conv_2021", data=tmp_path).stdout == "Kept conv_2021\n"
    deleted = timeloom("retention", data=tmp_path, TIMELOOM_RETENTION_DAYS="90")
    assert [line.rpartition(", ")[0] for line in deleted.stdout.splitlines()] == [
        "Deleted conv_2020",
        "Skipped, is marked with --keep: conv_2021",
    ]
    assert timeloom("retention", "--release", "conv_2021", data=tmp_path).stdout == "Released conv_2021\n"
    assert timeloom("retention", "--keep", "conv_2020", data=tmp_path).returncode == 1
    assert timeloom("verify", data=tmp_path).returncode == 0
    assert "1" in (tmp_path / "audit" / "t" / "p.jsonl").read_text()


def test_a_worker_deletes_old_conversations_first(tmp_path: Path) -> None:
    add_conversations(tmp_path)
    script = tmp_path / "script.yaml"
    script.write_text("[]")
    done = timeloom("worker", "--model", f"script:{script}", data=tmp_path, TIMELOOM_RETENTION_DAYS="90")
    assert (done.returncode, done.stdout) == (0, "no turn is open\n")
    assert done.stderr.count("deleted conv_") == 2
    assert len(timeloom("list", data=tmp_path).stdout.splitlines()) == 1
