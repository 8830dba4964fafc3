"""Extracts from entries what their model calls cost, by day and model, as every store sums it up."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from timeloom.core.blocks import ModelAnswered
from timeloom.core.codes import CodedError
from timeloom.core.timeline import Entry
from timeloom.core.view.spend import has_unknown_cost
from timeloom.ports.reader import ConversationInfo
from timeloom.ports.spend import PAGE_LIMIT, SpendKey, SpendPage, SpendQuery, SpendRow, SpendSums
from timeloom.stores.batch import Batch
from timeloom.stores.feedback_rows import count_copied_entries

MAX_SUM: Final = 2**53
"""The value at which sums stop growing; floats are exact up to it. Providers may report any number."""

MODEL_CHARS: Final = 200
"""Characters of a model's name that a bill distinguishes."""

SUMS: Final = tuple(SpendSums.__struct_fields__)

Costs = dict[tuple[str, str], SpendSums]
"""The sums by day and model."""

OwnedCosts = tuple[ConversationInfo, str, Costs]
"""The costs of a conversation with its owner, and its id; the id is empty after its deletion."""


def extract_batch_costs(batch: Batch) -> Costs:
    """Return the costs in the batch, without entries that a fork copied from its parent."""
    copied = count_copied_entries(batch.header)
    return sum_costs(entry for entry in batch.entries if entry.seq > copied)


def sum_costs(entries: Iterable[Entry]) -> Costs:
    """Return the costs of the model calls among the entries."""
    costs: Costs = {}
    for entry in entries:
        block = entry.block
        if isinstance(block, ModelAnswered):
            key = entry.ts[:10], block.model[:MODEL_CHARS]
            costs[key] = add_sums(costs.get(key, SpendSums()), _sums_of(block))
    return costs


def add_sums(one: SpendSums, other: SpendSums) -> SpendSums:
    """Return the sum of both."""
    return SpendSums(**{name: min(getattr(one, name) + getattr(other, name), MAX_SUM) for name in SUMS})


def clamp_spend_limit(limit: int) -> int:
    """Return the limit, reduced or raised to between 1 and `PAGE_LIMIT`."""
    return max(1, min(limit, PAGE_LIMIT))


def make_spend_cursor(keys: Sequence[str]) -> str:
    """Return the cursor for the page after the row with these values."""
    return msgspec.json.encode(keys).hex()


def parse_spend_cursor(query: SpendQuery) -> tuple[str, ...]:
    """Return the values after which the page begins; empty for the first page."""
    if not query.cursor:
        return ()
    try:
        keys = msgspec.json.decode(bytes.fromhex(query.cursor), type=tuple[str, ...])
    except (ValueError, UnicodeDecodeError, RecursionError) as error:
        raise _unknown_cursor_error(query) from error
    if len(keys) != len(query.by):
        raise _unknown_cursor_error(query)
    return keys


def select_costs(query: SpendQuery, found: Iterable[OwnedCosts]) -> Iterator[tuple[Mapping[SpendKey, str], SpendSums]]:
    """Yield the costs that match the query, with the values that they can be grouped by."""
    for info, conversation, costs in found:
        if query.tenant in ("", info.tenant) and query.project in ("", info.project) and query.user in ("", info.user):
            for (day, model), sums in costs.items():
                if query.since <= day and (not query.until or day < query.until):
                    yield {"day": day, "user": info.user, "model": model, "conversation": conversation}, sums


def make_spend_page(query: SpendQuery, costs: Iterable[tuple[Mapping[SpendKey, str], SpendSums]]) -> SpendPage:
    """Return the page of a store that sums up in memory; `costs` are those that match the query."""
    after, size = parse_spend_cursor(query), clamp_spend_limit(query.limit)
    groups: dict[tuple[str, ...], SpendSums] = {}
    total = SpendSums()
    for keys, sums in costs:
        group = tuple(keys[name] for name in query.by)
        groups[group] = add_sums(groups.get(group, SpendSums()), sums)
        total = add_sums(total, sums)
    listed = sorted(group for group in groups if query.by and (not after or group > after))
    rows = tuple(make_spend_row(query.by, group, groups[group]) for group in listed[:size])
    return SpendPage(rows=rows, total=total, cursor=make_spend_cursor(listed[size - 1]) if len(listed) > size else "")


def make_spend_row(by: Sequence[SpendKey], group: Sequence[str], sums: SpendSums) -> SpendRow:
    """Return the row of that group."""
    return SpendRow(**dict(zip(by, group, strict=True)), **msgspec.structs.asdict(sums))


def _sums_of(answer: ModelAnswered) -> SpendSums:
    usage = answer.usage
    return SpendSums(
        calls=1,
        unknown_costs=int(has_unknown_cost(answer)),
        input_tokens=_clamp(usage.input_tokens),
        cache_read_tokens=_clamp(usage.cache_read_tokens),
        cache_write_tokens=_clamp(usage.cache_write_tokens),
        output_tokens=_clamp(usage.output_tokens),
        cost_nano_usd=_clamp(usage.cost_nano_usd),
    )


def _clamp(amount: int) -> int:
    return max(0, min(amount, MAX_SUM))


def _unknown_cursor_error(query: SpendQuery) -> CodedError:
    return CodedError("cursor_malformed", f"cursor must come from a previous page, got {query.cursor[:40]!r}")
