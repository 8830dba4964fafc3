"""`timeloom spend` from outside."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from timeloom.core.blocks import ConversationStarted, ModelAnswered, Usage
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.stores.sqlite import SqliteStore


def add_calls(data: Path) -> None:
    async def add() -> None:
        async with await SqliteStore.open(data) as store:
            for user, priced in (("ann", True), ("bob", False)):
                header = ConversationStarted(tenant="t", project="p", user=user)
                usage = Usage(input_tokens=1000, output_tokens=500, cost_nano_usd=priced * 2_500_000_000)
                answer = ModelAnswered(round=1, model="m", stop_reason="end", usage=usage, priced=priced)
                ts = "2026-02-09T02:14:32.676425Z"
                drafts = [Draft(NO_TURN, ts, header), Draft(TurnId("turn_1"), ts, answer)]
                await store.append(ConversationId(f"conv_{user}"), 0, drafts)

    asyncio.run(add())


def spend(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "timeloom", "spend", *arguments, "--data-dir", str(data)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_bill_is_shown_by_the_wanted_columns(tmp_path: Path) -> None:
    add_calls(tmp_path)
    shown = spend(tmp_path, "--by", "user,day").stdout.splitlines()
    assert shown[0].split() == ["2.5000", "USD", "1,500", "tokens", "1", "calls", "ann", "2026-02-09"]
    assert shown[1].split()[0] == ">=" and shown[2].endswith("2 calls  in all")
    rows = [json.loads(line) for line in spend(tmp_path, "--json", "--by", "conversation").stdout.splitlines()]
    assert [row.get("conversation") for row in rows] == ["conv_ann", "conv_bob", None]
    assert (rows[-1]["type"], rows[-1]["cost_nano_usd"]) == ("total", 2_500_000_000)
    assert spend(tmp_path, "--until", "2026-02-09", "--json").stdout.count("\n") == 1
    assert "1,500 tokens" in spend(tmp_path, "--user", "bob", "--by", "").stdout
    assert spend(tmp_path, "--by", "moon").returncode == 2
    assert spend(tmp_path, "--since", "yesterday").returncode == 2
