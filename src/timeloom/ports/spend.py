"""The spend port: sums of model calls over all conversations, by day, user, model and conversation."""

from typing import Final, Literal, Protocol

import msgspec

SpendKey = Literal["day", "user", "model", "conversation"]
"""What rows of a bill can be grouped by. Days are in UTC."""

SPEND_KEYS: Final[tuple[SpendKey, ...]] = ("day", "user", "model", "conversation")

PAGE_LIMIT: Final = 1000
"""Most rows of a page. Larger requested limits are reduced to it."""


class SpendSums(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over model calls. Sums above 2^53 are reduced to it."""

    calls: int = 0
    unknown_costs: int = 0
    """Calls whose cost is unknown or estimated; if there are any, the cost is at least `cost_nano_usd`."""
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0


class SpendRow(SpendSums, frozen=True, kw_only=True):
    """The sums of one group; fields that the rows are not grouped by are empty.

    The calls of deleted conversations are in rows without a conversation.
    """

    day: str = ""
    user: str = ""
    model: str = ""
    conversation: str = ""


class SpendQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Selects model calls; empty fields match all. Only operators may leave the tenant empty."""

    tenant: str = ""
    project: str = ""
    user: str = ""
    since: str = ""
    """The first day, such as `2026-02-09`."""
    until: str = ""
    """The day after the last one."""
    by: tuple[SpendKey, ...] = ()
    """The columns of the rows, in their order; without any there is only the total."""
    cursor: str = ""
    limit: int = 100


class SpendPage(msgspec.Struct, frozen=True, kw_only=True):
    """Rows in the order of their columns; `cursor` requests the next page and is empty at the end."""

    rows: tuple[SpendRow, ...]
    total: SpendSums
    """The sums over all matching calls, on all pages."""
    cursor: str = ""


class SpendReader(Protocol):
    """Returns what model calls have cost, without reading entries."""

    async def read_spend(self, query: SpendQuery) -> SpendPage:
        """Return one page of the bill.

        A call counts on the day of its outcome, and only in the conversation that made it: forks copy no spending.
        The spending of a deleted conversation stays, without its id. Raises `cursor_malformed`.
        """
        ...


def parse_spend_keys(text: str) -> tuple[SpendKey, ...]:
    """Return the columns in a comma-separated text; raise `ValueError` for others or for one that comes twice."""
    keys: list[SpendKey] = []
    for word in filter(None, map(str.strip, text.split(","))):
        if word not in SPEND_KEYS or word in keys:
            raise ValueError(f"expected some of {', '.join(SPEND_KEYS)}, each once; got {text[:80]!r}")
        keys.append(SPEND_KEYS[SPEND_KEYS.index(word)])
    return tuple(keys)
