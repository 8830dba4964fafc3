"""Metrics: the counted events, the permission to read them, and values that are never in a label."""

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.harness.replies import answers
from tests.server.server_harness import CHAT, LIST, ServerHarness, calls, repeated_reply, run
from timeloom.core.blocks import ModelAnswered
from timeloom.core.blocks.round import Usage
from timeloom.core.ids import TurnId
from timeloom.core.timeline import Entry
from timeloom.server.auth.access_policy import AccessPolicy
from timeloom.server.observability.metrics import Metrics


def samples(text: str) -> dict[tuple[str, str], float]:
    """The values by name and labels, these in the order of their names."""
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name, ",".join(sample.labels[name] for name in sorted(sample.labels))] = sample.value
    return found


def test_what_the_server_does_is_counted(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(
            tmp_path, calls("t.look"), calls("t.wait"), repeated_reply(answers("Done."))
        ).serve() as served:
            ann, operator = served.ann, served.client("operator")
            conversation = str((await ann.send_message("my secret"))["conversation_id"])
            async with ann.stream_conversation(conversation) as events:
                async for frame in events:
                    if frame.data.get("tool_id") == "t.wait":
                        break
                now = samples((await operator.get("/metrics")).text)
                assert now["timeloom_turns_running", ""] == 1
                assert now["timeloom_streams_open", ""] == 1
            await ann.send(conversation, "steer")
            await ann.wait_for_state(conversation, "idle")
            await ann.post(CHAT, {"message": ""})
            text = (await operator.get("/metrics")).text
            then = samples(text)
            assert then["timeloom_turns_total", ""] == 1
            assert then["timeloom_tool_calls_total", ""] == 2
            assert then["timeloom_deltas_total", ""] > 0
            assert then["timeloom_requests_total", "post_message,202"] == 1
            assert then["timeloom_request_seconds_count", "get_stream"] == 1
            assert then["timeloom_errors_total", "request_malformed,request"] == 1
            assert then["timeloom_readers_too_slow_total", ""] == 0
            assert then["timeloom_tokens_total", "output"] >= 0
            for word in (conversation, "secret", "ann", "home", "demo", "t.look"):
                assert word not in text

    run(check)


def test_tokens_and_cost_and_errors_of_models_are_added_up() -> None:
    metrics, turn = Metrics(), TurnId("turn_1700000000000_abcdef")
    usage = Usage(input_tokens=10, output_tokens=5, cache_read_tokens=3, cost_nano_usd=250_000_000)
    for seq, error in ((1, ""), (2, "model_overloaded")):
        block = ModelAnswered(round=1, model="m", stop_reason="end", usage=usage, error=error)
        metrics.on_entry(Entry(seq=seq, turn_id=turn, ts="2026-02-09T02:14:32.676425Z", block=block))
    found = samples(metrics.render().decode())
    assert found["timeloom_tokens_total", "input"] == 20
    assert found["timeloom_tokens_total", "cache_read"] == 6
    assert found["timeloom_cost_usd_total", ""] == pytest.approx(0.5)
    assert found["timeloom_errors_total", "model_overloaded,model"] == 1


@pytest.mark.parametrize(
    ("rules", "anybody", "admin", "operator"),
    [
        (AccessPolicy(), 401, 403, 200),
        (AccessPolicy(metrics="open"), 200, 200, 200),
        (AccessPolicy(metrics="off"), 401, 403, 404),
    ],
)
def test_who_may_read_them_is_a_rule_of_the_server(
    tmp_path: Path, rules: AccessPolicy, anybody: int, admin: int, operator: int
) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path)
        stage.rules = rules
        async with stage.serve() as served:
            assert (await served.http.get("/metrics")).status_code == anybody
            assert (await served.client("admin").get("/metrics")).status_code == admin
            read = await served.client("operator").get("/metrics")
            assert read.status_code == operator
            if operator == 200:
                assert read.headers["content-type"].startswith("text/plain; version=")
            assert (await served.http.get(LIST)).status_code == 401

    run(check)


def test_the_process_and_the_event_loop_are_measured(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            operator = served.client("operator")
            now = samples((await operator.get("/metrics")).text)
            assert now["process_resident_memory_bytes", ""] > 0
            assert 0 < now["process_open_fds", ""] < now["process_max_fds", ""]
            assert now["timeloom_connections_open", ""] >= 1
            while not samples((await operator.get("/metrics")).text)["timeloom_event_loop_lag_seconds_count", ""]:
                pass

    run(check)
