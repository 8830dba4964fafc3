"""Metrics: what the server does and has done, as Prometheus reads it; no label is an id, a name or a text."""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from timeloom.core.blocks import ModelAnswered, ToolCall, TurnEnded, TurnStarted
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.core.timeline import Entry

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

NANO: Final = 1_000_000_000

_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Standing(Protocol):
    """What is open right now, and how many readers were too slow so far."""

    @property
    def running(self) -> int: ...

    @property
    def readers(self) -> int: ...

    @property
    def slow_readers(self) -> int: ...

    @property
    def conversations(self) -> tuple[object, ...]: ...


class Metrics:
    """Counts what happens; each server has its own."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "timeloom_requests", "Requests that were answered.", ("operation", "status"), registry=registry
        )
        self._seconds = Histogram(
            "timeloom_request_seconds",
            "How long requests took until they were answered; of a stream, until it began.",
            ("operation",),
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._errors = Counter("timeloom_errors", "Errors by their code.", ("where", "code"), registry=registry)
        self._turns = Counter("timeloom_turns", "Turns that began.", registry=registry)
        self._ended = Counter("timeloom_turns_ended", "Turns that ended.", ("reason",), registry=registry)
        self._calls = Counter("timeloom_tool_calls", "Calls of tools.", registry=registry)
        self._deltas = _Deltas()
        registry.register(self._deltas)
        self._tokens = Counter("timeloom_tokens", "Tokens that models read and wrote.", ("kind",), registry=registry)
        self._cost = Counter("timeloom_cost_usd", "Dollars that models cost.", registry=registry)

    def watch(self, standing: Standing) -> None:
        """Also tells what is open there."""
        self._registry.register(_StandingCollector(standing))

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)

    def refused(self, code: str) -> None:
        """A request was answered with a problem."""
        self._errors.labels("request", code).inc()

    def delta(self, _delta: LiveDelta) -> None:
        """A piece of text is on its way."""
        self._deltas.count += 1

    def entry(self, entry: Entry) -> None:
        """An entry is stored."""
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
                self._cost.inc(usage.cost_nano_usd / NANO)
                if error:
                    self._errors.labels("model", error).inc()
            case _:
                pass

    def text(self) -> bytes:
        """All of it, in Prometheus's form."""
        return generate_latest(self._registry)


class _Deltas(Collector):
    """There are thousands in a second, all of one thread: a counter of its own spares each of them a lock."""

    def __init__(self) -> None:
        self.count = 0

    def collect(self) -> Iterable[Metric]:
        return (CounterMetricFamily("timeloom_deltas", "Pieces of text on their way.", value=self.count),)


class _StandingCollector(Collector):
    def __init__(self, standing: Standing) -> None:
        self._standing = standing

    def collect(self) -> Iterable[Metric]:
        return self._collected()

    def _collected(self) -> Iterator[Metric]:
        now = self._standing
        gauges = (
            ("timeloom_turns_running", "Turns that run.", now.running),
            ("timeloom_streams_open", "Readers of streams.", now.readers),
            (
                "timeloom_conversations_open",
                "Conversations that are open, read or spoken to.",
                len(now.conversations),
            ),
        )
        for name, words, value in gauges:
            yield GaugeMetricFamily(name, words, value=value)
        words = "Readers that fell behind and were told to come back."
        yield CounterMetricFamily("timeloom_readers_too_slow", words, value=now.slow_readers)
