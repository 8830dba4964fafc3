"""Prints the cache ledger of `timeloom replay --cache`: expected and reported tokens, costs and reasons."""

import sys
from typing import Final

import click
import msgspec

from timeloom.cli.command import select_conversations
from timeloom.core.ids import ConversationId
from timeloom.ports.store import Store, StoreProblem
from timeloom.runtime.replay.replay import ReplayedCall, replay

_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
"""Escapes for characters that could control a terminal."""

HEADINGS: Final = (
    f"{'seq':>6} {'turn':<26} {'round':>5} {'try':>3} {'purpose':<10} "
    f"{'read':>17} {'written':>15} {'uncached':>15} {'cost':>11}  points  why"
)


class CacheTotal(msgspec.Struct, kw_only=True):
    """Sums over the model calls of a conversation; expected tokens only of calls with reported usage."""

    calls: int = 0
    compared: int = 0
    """Calls with both expected and reported tokens."""
    expected_read_tokens: int = 0
    expected_written_tokens: int = 0
    expected_uncached_tokens: int = 0
    read_tokens: int = 0
    written_tokens: int = 0
    uncached_tokens: int = 0
    cost_nano_usd: int = 0
    explained: int = 0
    """Calls with a reason why less was read from the cache than possible, or other than expected."""
    findings: int = 0

    @property
    def read_share(self) -> float:
        """The share of all prompt tokens that was read from a cache."""
        return self.read_tokens / max(1, self.read_tokens + self.written_tokens + self.uncached_tokens)

    def add(self, found: ReplayedCall | StoreProblem) -> None:
        """Add a replayed call or a finding."""
        if isinstance(found, StoreProblem):
            self.findings += 1
            return
        usage, row = found.usage, found.cache
        self.calls += 1
        self.read_tokens += usage.cache_read_tokens
        self.written_tokens += usage.cache_write_tokens
        self.uncached_tokens += usage.input_tokens
        self.cost_nano_usd += usage.cost_nano_usd
        self.explained += bool(row and row.change)
        if row and row.reported:
            self.compared += 1
            self.expected_read_tokens += row.expected.read_tokens
            self.expected_written_tokens += row.expected.written_tokens
            self.expected_uncached_tokens += row.expected.uncached_tokens

    def __str__(self) -> str:
        expected = f"{self.expected_read_tokens}/{self.expected_written_tokens}/{self.expected_uncached_tokens}"
        return (
            f"calls: {self.calls}, read from cache: {self.read_share:.1%} "
            f"({self.read_tokens} read, {self.written_tokens} written, {self.uncached_tokens} uncached; "
            f"expected of {self.compared} calls: {expected}), cost: ${self.cost_nano_usd / 1e9:.6f}, "
            f"explained: {self.explained}"
        )


async def print_ledger(store: Store, only: str | None, *, as_json: bool) -> int:
    """Print the ledger of the conversations, call by call; returns 1 if a log has findings."""
    findings = 0
    async for conversation in select_conversations(store, only):
        total = CacheTotal()
        if not as_json:
            click.echo(f"{conversation}\n{HEADINGS}")
        async for found in replay(store, conversation):
            total.add(found)
            _print_result(found, as_json=as_json)
        _print_total(conversation, total, as_json=as_json)
        findings += total.findings
    return 1 if findings else 0


def _print_result(found: ReplayedCall | StoreProblem, *, as_json: bool) -> None:
    if as_json:
        kind = {"kind": "finding"} if isinstance(found, StoreProblem) else dict[str, str]()
        _print_json(kind | msgspec.to_builtins(found))
    elif isinstance(found, StoreProblem):
        _print_line(f"{found.message} [{found.code}]")
    else:
        _print_line(_row(found))


def _print_total(conversation: ConversationId, total: CacheTotal, *, as_json: bool) -> None:
    if as_json:
        sums = {"kind": "cache_total", "conversation": conversation, "read_share": total.read_share}
        _print_json(sums | msgspec.to_builtins(total))
    else:
        click.echo(f"{total}\n")


def _row(call: ReplayedCall) -> str:
    usage, row = call.usage, call.cache
    expected = row.expected if row else None
    is_known = row.reported if row else bool(call.ended)
    read = _format_pair(expected and expected.read_tokens, usage.cache_read_tokens if is_known else None)
    written = _format_pair(expected and expected.written_tokens, usage.cache_write_tokens if is_known else None)
    uncached = _format_pair(expected and expected.uncached_tokens, usage.input_tokens if is_known else None)
    cost = f"${usage.cost_nano_usd / 1e9:.6f}" if usage.cost_nano_usd else "-"
    points = " ".join(point.lifetime for point in expected.points) if expected else "-"
    place = f"{call.turn_id:<26} {call.round:>5} {call.attempt:>3} {call.purpose:<10}"
    counts = f"{read:>17} {written:>15} {uncached:>15}"
    return f"{call.seq:>6} {place} {counts} {cost:>11}  {points}  {_format_reason(call)}".rstrip()


def _format_pair(expected: int | None, reported: int | None) -> str:
    return "/".join("-" if count is None else str(count) for count in (expected, reported))


def _format_reason(call: ReplayedCall) -> str:
    change = call.cache.change if call.cache else None
    if change is None:
        return ""
    place = f" at {change.seq} {change.path}".rstrip() if change.seq else ""
    return f"{change.reason}{place}: {change.text}"


def _print_line(text: str) -> None:
    # An imported log may contain control characters in a path.
    click.echo(text.translate(_CONTROLS))


def _print_json(value: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
