"""The benchmark of contexts: a small session through the runtime, and through others where they are installed."""

import asyncio
import json
from pathlib import Path

import pytest

from bench import peer, trace_files
from bench.context.agent import to_agent
from bench.context.asks import to_asks
from bench.context.counting import calibrate_counter
from bench.context.peer_histories import SIDES, peer_requests, with_points_by_hand
from bench.context.player import PlayMode, PlayResult, play
from bench.context.sent import bill_requests, sum_bills
from tests.bench.test_bench_smoke import run_bench

LONG = "A line of a file that is worth keeping in sight, with some words.\n" * 40


def said(kind: str, at_s: int, **fields: object) -> dict[str, object]:
    minutes, seconds = divmod(at_s, 60)
    return {"t": kind, "ts": f"2026-02-11T20:{minutes:02}:{seconds:02}Z", **fields}


def reply(kind: str, at_s: int, request: str, prompt_tokens: int, **fields: object) -> dict[str, object]:
    usage = {"input_tokens": 3, "cache_read_input_tokens": 8_000, "cache_creation_input_tokens": prompt_tokens}
    return said(kind, at_s, req=request, usage=usage, **fields)


SESSION = (
    said("user", 0, text="Mend it."),
    reply("thinking", 2, "r1", 100, text="Where?"),
    reply("tool_use", 3, "r1", 100, id="c1", name="Read", input={"file_path": "a.py"}),
    reply("tool_use", 4, "r1", 100, id="c2", name="Bash", input={"command": "ls"}),
    said("tool_result", 5, id="c1", is_error=False, content=LONG),
    said("tool_result", 6, id="c2", is_error=True, content="no such command"),
    said("queue", 7, op="enqueue", text="Hurry."),
    reply("text", 9, "r2", 1_500, text="I edit it."),
    reply("tool_use", 9, "r2", 1_500, id="c3", name="Edit", input={"file_path": "a.py", "new": "x"}),
    said("tool_result", 10, id="c3", is_error=False, content="edited"),
    said("compact_summary", 12, text="A file was mended."),
    reply("text", 14, "r3", 200, text="Mended."),
    said("user", 700, text="Is it pushed?"),
    reply("text", 702, "r4", 300, text="Yes."),
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "traces"
    folder.mkdir(parents=True)
    lines = "\n".join(json.dumps(event) for event in SESSION)
    (folder / "coding_agent_1.jsonl").write_text(lines, encoding="utf-8")
    return folder.parent


def played(data: Path, way: PlayMode) -> PlayResult:
    asks = to_asks(trace_files.read_sessions(data)[0])
    counter = calibrate_counter(asks)
    return asyncio.run(play(asks, to_agent(asks, counter), counter, way))


def test_every_recorded_request_is_made_at_its_time(data: Path) -> None:
    sent = played(data, PlayMode()).sent
    assert [one.at_s - sent[0].at_s for one in sent] == [0, 7, 12, 700]


def test_what_stays_is_read_until_a_pause_is_too_long(data: Path) -> None:
    first, second, summed_up, late = bill_requests(played(data, PlayMode()).sent)
    assert first.read == 0
    assert second.read == first.written + first.written_for_an_hour
    assert 0 < summed_up.read < second.read
    assert late.read == 0 or late.written < summed_up.read


def test_forecasts_agree_with_the_bills_and_losses_are_explained(data: Path) -> None:
    found = played(data, PlayMode()).forecasts
    assert found.calls == found.same_bytes == 4
    assert found.losses == found.explained > 0
    assert found.worst_call_off < 1


def test_the_tables_are_printed(tmp_path: Path, data: Path) -> None:
    printed, (shares, costs, forecasts) = run_bench(tmp_path, "--data", str(data), "--only", "context")
    assert "1 recorded sessions" in printed
    assert [row[1] for row in shares.rows][:2] == ["the best of any append-only prompt", "recorded then"]
    assert {row[2] for row in costs.rows} == {4}
    assert {row[2] for row in forecasts.rows} == {4}


def test_every_runtime_that_is_installed_sends_as_many_requests(data: Path) -> None:
    asks = to_asks(trace_files.read_sessions(data)[0])
    counter = calibrate_counter(asks)
    for side in SIDES if peer.is_ready() else ():
        sent = peer_requests(peer.prepare(), side, asks, to_agent(asks, counter), counter)
        assert len(sent) == len(asks)
        assert sum_bills(bill_requests(sent)).read == 0
        assert sum_bills(bill_requests(with_points_by_hand(sent))).read > 0
