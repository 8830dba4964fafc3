"""Prometheus metrics of the server; labels contain no ids, names or texts."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from timeloom.core.blocks import ModelAnswered, ToolCall, TurnEnded, TurnStarted
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.core.timeline import Entry
from timeloom.platform.tasks import cancel_and_wait

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

NANO_USD_PER_USD: Final = 1_000_000_000

_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


LAG_INTERVAL_S: Final = 0.5
"""Seconds between two measurements of the event loop's lag."""


class LiveCounts(Protocol):
    """Current numbers of the hub: turns, readers and conversations, and readers that were too slow so far."""

    @property
    def running(self) -> int: ...

    @property
    def readers(self) -> int: ...

    @property
    def slow_readers(self) -> int: ...

    @property
    def conversations(self) -> tuple[object, ...]: ...


class Metrics:
    """The metrics of one server, in a separate registry."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "timeloom_requests", "Requests by operation and status.", ("operation", "status"), registry=registry
        )
        self._seconds = Histogram(
            "timeloom_request_seconds",
            "Seconds until a request was answered; for a stream, until it began.",
            ("operation",),
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._errors = Counter("timeloom_errors", "Errors by code.", ("where", "code"), registry=registry)
        self._turns = Counter("timeloom_turns", "Turns started.", registry=registry)
        self._ended = Counter("timeloom_turns_ended", "Turns ended, by reason.", ("reason",), registry=registry)
        self._calls = Counter("timeloom_tool_calls", "Tool calls.", registry=registry)
        self._connections = Gauge("timeloom_connections_open", "Open connections.", registry=registry)
        self._limited = Counter(
            "timeloom_connections_limited", "Connections that a limit ended.", ("action",), registry=registry
        )
        self._lag = Histogram(
            "timeloom_event_loop_lag_seconds",
            "How late the event loop ran a timer, measured twice a second.",
            buckets=_BUCKETS_S,
            registry=registry,
        )
        # Memory, open descriptors and processor time of the process; empty where the system has no /proc.
        ProcessCollector(registry=registry)
        self._deltas = _DeltaCounter()
        registry.register(self._deltas)
        self._tokens = Counter("timeloom_tokens", "Tokens read and written by models.", ("kind",), registry=registry)
        self._cost = Counter("timeloom_cost_usd", "Cost of model calls in US dollars.", registry=registry)

    def export_live_counts(self, live_counts: LiveCounts) -> None:
        """Also export these live counts."""
        self._registry.register(_LiveCountsCollector(live_counts))

    def count_response(self, operation: str, status: int, seconds: float) -> None:
        """Count an answered request and its duration."""
        self._requests.labels(operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)

    def count_error(self, code: str) -> None:
        """Count an error response."""
        self._errors.labels("request", code).inc()

    def count_connections(self, change: int) -> None:
        """Count opened connections, or closed ones with a negative number."""
        self._connections.inc(change)

    def count_limited_connection(self, action: str) -> None:
        """Count a connection that a limit ended: `closed` for another one, or `refused`."""
        self._limited.labels(action).inc()

    def observe_loop_lag(self, seconds: float) -> None:
        """Add a measurement of the event loop's lag."""
        self._lag.observe(seconds)

    def on_delta(self, _delta: LiveDelta) -> None:
        """Count a delta of streamed text."""
        self._deltas.count += 1

    def on_entry(self, entry: Entry) -> None:
        """Count the turns, calls, tokens, costs and errors of a stored entry."""
        match entry.block:
            case TurnStarted():
                self._turns.inc()
            case TurnEnded(reason=reason):
                self._ended.labels(reason).inc()
            case ToolCall():
                self._calls.inc()
            case ModelAnswered(usage=usage, error=error):
                used = {
                    "input": usage.input_tokens,
                    "cache_read": usage.cache_read_tokens,
                    "cache_write": usage.cache_write_tokens,
                    "output": usage.output_tokens,
                }
                for kind, amount in used.items():
                    self._tokens.labels(kind).inc(amount)
                self._cost.inc(usage.cost_nano_usd / NANO_USD_PER_USD)
                if error:
                    self._errors.labels("model", error).inc()
            case _:
                pass

    def render(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)


@asynccontextmanager
async def measure_loop_lag(metrics: Metrics, interval_s: float = LAG_INTERVAL_S) -> AsyncGenerator[None]:
    """Measure how late the event loop runs its timers while the context is open."""

    async def measure() -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + interval_s
            await asyncio.sleep(interval_s)
            metrics.observe_loop_lag(max(0.0, loop.time() - due_s))

    task = asyncio.create_task(measure(), name="measuring lag")
    try:
        yield
    finally:
        await cancel_and_wait(task)


class _DeltaCounter(Collector):
    """Counts deltas without a lock: there are thousands per second, all from one thread."""

    def __init__(self) -> None:
        self.count = 0

    def collect(self) -> Iterable[Metric]:
        return (CounterMetricFamily("timeloom_deltas", "Deltas of streamed text.", value=self.count),)


class _LiveCountsCollector(Collector):
    def __init__(self, live_counts: LiveCounts) -> None:
        self._live_counts = live_counts

    def collect(self) -> Iterable[Metric]:
        return self._collect_metrics()

    def _collect_metrics(self) -> Iterator[Metric]:
        live_counts = self._live_counts
        gauges = (
            ("timeloom_turns_running", "Running turns.", live_counts.running),
            ("timeloom_streams_open", "Open event streams.", live_counts.readers),
            (
                "timeloom_conversations_open",
                "Open conversations.",
                len(live_counts.conversations),
            ),
        )
        for name, description, value in gauges:
            yield GaugeMetricFamily(name, description, value=value)
        description = "Readers that were disconnected because they fell behind."
        yield CounterMetricFamily("timeloom_readers_too_slow", description, value=live_counts.slow_readers)
