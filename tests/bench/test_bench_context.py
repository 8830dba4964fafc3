"""The benchmark of contexts: a small session through the runtime, and through others where they are installed."""

import asyncio
import json
from itertools import pairwise
from pathlib import Path

import pytest

from bench import peer, trace_files
from bench.context.agent import to_agent
from bench.context.asks import to_asks
from bench.context.counting import calibrate_counter
from bench.context.families import family_of, generate_session
from bench.context.generated import MAX_OF_FIXED, MAX_OF_HAND, bill_session
from bench.context.peer_histories import SIDES, peer_requests, with_points_by_hand
from bench.context.player import PlayMode, PlayResult, play
from bench.context.sent import bill_requests, sum_bills
from bench.traces import TraceEvent, group_by_turns
from tests.bench.test_bench_smoke import run_bench
from timeloom.core.tokens import estimate_tokens

AT = "2026-02-11T20:00:00Z"
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


def test_a_generated_session_is_the_same_in_every_run_and_within_its_family() -> None:
    family = family_of(9)
    once, again = generate_session(family, 9), generate_session(family, 9)
    assert once == again
    assert once != generate_session(family, 11)
    calls = [event for step in once.steps() for event in step if event.kind == "call"]
    assert family.calls[0] <= len(calls) <= family.calls[1] + 1


def test_long_pauses_are_where_the_family_has_them() -> None:
    def longest_s(seed: int) -> float:
        asks = to_asks(generate_session(family_of(seed), seed))
        return max(after.at_s - before.at_s for before, after in pairwise(asks))

    assert [longest_s(seed) < 300 for seed in (3, 9, 15)] == [True, True, True]
    assert [360 <= longest_s(seed) <= 3_600 for seed in (4, 12)] == [True, True]


def test_a_session_of_many_small_calls_meets_the_bars() -> None:
    # The shortest session of the family, by timeloom's estimate: the hardest of the twenty.
    bill = bill_session(generate_session(family_of(9), 9), "small calls", 9, estimate_tokens)
    assert bill.of_fixed <= MAX_OF_FIXED
    assert bill.of_hand <= MAX_OF_HAND
    assert bill.prunes >= 3


def test_an_hour_is_chosen_in_a_session_with_long_pauses() -> None:
    bill = bill_session(generate_session(family_of(12), 12), "gaps", 12, estimate_tokens)
    assert min(bill.fixed, key=bill.fixed.__getitem__) == "all points 1 hour"
    assert bill.hour_tokens > 0
    assert bill.of_fixed <= MAX_OF_FIXED


@pytest.mark.parametrize(("result", "reads_again"), [(LONG, 0), (LONG * 40, 1)])
def test_a_file_that_was_only_shown_in_part_is_read_again_before_its_edit(result: str, reads_again: int) -> None:
    reads = TraceEvent("call", '{"file_path": "a.py"}', AT, call_id="c1", tool="Read", request="r1")
    edits = TraceEvent("call", '{"file_path": "a.py"}', AT, call_id="c2", tool="Edit", request="r2")
    steps = [
        (TraceEvent("user", "Mend it.", AT),),
        (reads,),
        (TraceEvent("result", result, AT, call_id="c1"),),
        (edits,),
        (TraceEvent("result", "edited", AT, call_id="c2"),),
    ]
    asks = to_asks(group_by_turns("small", steps))
    counter = calibrate_counter(asks)
    assert len(asyncio.run(play(asks, to_agent(asks, counter), counter, PlayMode())).reads_again) == reads_again


def test_every_runtime_that_is_installed_sends_as_many_requests(data: Path) -> None:
    asks = to_asks(trace_files.read_sessions(data)[0])
    counter = calibrate_counter(asks)
    for side in SIDES if peer.is_ready() else ():
        sent = peer_requests(peer.prepare(), side, asks, to_agent(asks, counter), counter)
        assert len(sent) == len(asks)
        assert sum_bills(bill_requests(sent)).read == 0
        assert sum_bills(bill_requests(with_points_by_hand(sent))).read > 0
