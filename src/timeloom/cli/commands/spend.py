"""`timeloom spend`: shows what model calls have cost."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec.structs import asdict, replace

from timeloom.cli.command import async_command, data_dir_option, open_store_for_reading
from timeloom.cli.sanitize import sanitize
from timeloom.ports.spend import PAGE_LIMIT, SpendKey, SpendQuery, SpendRow, SpendSums, parse_spend_keys

NANO_USD: Final = 1_000_000_000
_DAY: Final = click.DateTime(["%Y-%m-%d"])


class SpendTotal(SpendSums, frozen=True, kw_only=True, tag_field="type", tag="total"):
    """The last line of `timeloom spend --json`."""


@click.command()
@data_dir_option
@click.option("--by", default="day", show_default=True, metavar="KEYS", help="Columns: day, user, model, conversation.")
@click.option("--since", type=_DAY, help="The first day, in UTC.")
@click.option("--until", type=_DAY, help="The day after the last one.")
@click.option("--tenant", default="", help="Only this tenant.")
@click.option("--project", default="", help="Only this project.")
@click.option("--user", default="", help="Only this user.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per row and line, then the total.")
@async_command
async def spend(
    data_dir: Path,
    *,
    by: str,
    since: datetime | None,
    until: datetime | None,
    tenant: str,
    project: str,
    user: str,
    as_json: bool,
) -> int:
    """Show what model calls have cost, by day, user, model or conversation.

    The amounts are those that the timelines record. A fork counts only its own calls. The calls of deleted
    conversations stay in the bill, without a conversation.

    \b
    Examples:
      timeloom spend --since 2026-02-01 --by user,model
      timeloom spend --by conversation --json
    """
    query = SpendQuery(
        tenant=tenant,
        project=project,
        user=user,
        since=_format_day(since),
        until=_format_day(until),
        by=_parse_keys(by),
        limit=PAGE_LIMIT,
    )
    async with open_store_for_reading(data_dir) as store:
        while True:
            page = await store.read_spend(query)
            for row in page.rows:
                click.echo(msgspec.json.encode(row).decode() if as_json else _format_row(query.by, row))
            if not page.cursor:
                break
            query = replace(query, cursor=page.cursor)
    if as_json:
        click.echo(msgspec.json.encode(SpendTotal(**asdict(page.total))).decode())
    else:
        click.echo(f"{_format_sums(page.total)}  in all")
    return 0


def _parse_keys(text: str) -> tuple[SpendKey, ...]:
    try:
        return parse_spend_keys(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--by") from error


def _format_day(day: datetime | None) -> str:
    return f"{day:%Y-%m-%d}" if day else ""


def _format_row(by: Sequence[SpendKey], row: SpendRow) -> str:
    names = [str(getattr(row, name)) or "(deleted)" for name in by]
    # Names of users and models are untrusted text.
    return sanitize("  ".join([_format_sums(row), *names]))


def _format_sums(sums: SpendSums) -> str:
    tokens = sums.input_tokens + sums.cache_read_tokens + sums.cache_write_tokens + sums.output_tokens
    at_least = ">=" if sums.unknown_costs else "  "
    return f"{at_least}{sums.cost_nano_usd / NANO_USD:>10.4f} USD  {tokens:>13,} tokens  {sums.calls:>6,} calls"
