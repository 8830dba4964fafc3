"""The route of the bill: what model calls have cost."""

import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from timeloom.core.codes import CodedError
from timeloom.ports.spend import SpendKey, SpendQuery, SpendRow, SpendSums, parse_spend_keys
from timeloom.server.request_context import RequestContext
from timeloom.server.routes.conversations import resolve_owner

_DAY: Final = re.compile(r"\d{4}-[01]\d-[0-3]\d", re.ASCII)


class BillQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects model calls by day, and the columns of the rows. Admins may select another `user`, or all with `*`."""

    by: Annotated[str, Meta(max_length=60)] = "day"
    """Some of `day`, `user`, `model` and `conversation`, separated by commas, in the order of the columns."""
    since: Annotated[str, Meta(max_length=10)] = ""
    """The first day in UTC, such as `2026-02-09`."""
    until: Annotated[str, Meta(max_length=10)] = ""
    """The day after the last one."""
    user: str = ""
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """Rows in the order of their columns. `total` covers all pages; `cursor` requests the next page."""

    tenant: str
    project: str
    total: SpendSums
    rows: tuple[SpendRow, ...]
    cursor: str = ""


async def get_spend(context: RequestContext, query: BillQuery) -> Bill:
    """Return what model calls of the project have cost, by day, user, model or conversation."""
    for name, day in (("since", query.since), ("until", query.until)):
        if day and not _DAY.fullmatch(day):
            raise CodedError("request_malformed", f"{name} is a day such as 2026-02-09, got {day!r}")
    page = await context.services.store.read_spend(
        SpendQuery(
            tenant=context.tenant,
            project=context.project,
            user=await resolve_owner(context, query.user),
            since=query.since,
            until=query.until,
            by=_parse_keys(query.by),
            cursor=query.cursor,
            limit=query.limit,
        )
    )
    return Bill(tenant=context.tenant, project=context.project, total=page.total, rows=page.rows, cursor=page.cursor)


def _parse_keys(text: str) -> tuple[SpendKey, ...]:
    try:
        return parse_spend_keys(text)
    except ValueError as error:
        raise CodedError("request_malformed", f"by: {error}") from error
