"""`timeloom list`: shows the conversations of a data folder."""

from pathlib import Path

import click
import msgspec

from timeloom.cli.command import async_command, data_dir_option, open_store_for_reading, select_conversations
from timeloom.cli.sanitize import sanitize
from timeloom.core.blocks import TurnStarted
from timeloom.core.ids import ConversationId
from timeloom.ports.reader import ConversationInfo, ConversationUnknownError
from timeloom.ports.store import Store
from timeloom.runtime.hub.events import ConversationState, to_state
from timeloom.runtime.read.open_turn import PAGE, load_newest_turn

TITLE_WIDTH = 40


class ListedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `timeloom list`."""

    id: ConversationId
    title: str
    tenant: str
    project: str
    user: str
    updated: str
    turns: int
    status: ConversationState


@click.command("list")
@data_dir_option
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Conversations per page.")
@click.option("--page", type=click.IntRange(1), default=1, show_default=True, help="Page to show.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per conversation and line.")
@async_command
async def list(data_dir: Path, limit: int, page: int, *, as_json: bool) -> int:  # noqa: A001 - the command's name
    """List the conversations of a data folder, the most recently updated first.

    The columns are id, time of the last entry, number of turns, status, user and title. The status is idle, running,
    waiting (for an approval) or interrupted.

    \b
    Examples:
      timeloom list --limit 10
      timeloom list --page 2 --json
    """
    async with open_store_for_reading(data_dir) as store:
        infos = [await store.info(conversation) async for conversation in select_conversations(store, None)]
        infos.sort(key=lambda info: (info.last_ts, info.id), reverse=True)
        start = (page - 1) * limit
        for info in infos[start : start + limit]:
            try:
                listed = await _describe(store, info)
            except ConversationUnknownError:
                continue  # It was deleted since the list was read.
            click.echo(msgspec.json.encode(listed).decode() if as_json else _format_line(listed))
    if start + limit < len(infos):
        click.echo(f"{len(infos)} conversations; `--page {page + 1}` shows the next ones", err=True)
    elif not infos:
        click.echo("there are no conversations", err=True)
    return 0


async def _describe(store: Store, info: ConversationInfo) -> ListedConversation:
    turns = seq = 0
    while entries := await store.load(info.id, after=seq, limit=PAGE):
        turns += sum(isinstance(entry.block, TurnStarted) for entry in entries)
        seq = entries[-1].seq
    status: ConversationState = "idle"
    if await store.having_open_turn([info.id]):
        progress = await load_newest_turn(store, info.id)
        status = to_state(progress, is_run=await store.is_held(info.id))
    return ListedConversation(
        id=info.id,
        title=info.title,
        tenant=info.tenant,
        project=info.project,
        user=info.user,
        updated=info.last_ts,
        turns=turns,
        status=status,
    )


def _format_line(listed: ListedConversation) -> str:
    turns = f"{listed.turns} {'turn' if listed.turns == 1 else 'turns'}"
    title = listed.title if len(listed.title) <= TITLE_WIDTH else f"{listed.title[: TITLE_WIDTH - 1]}…"
    # Titles and names of users are untrusted text.
    return sanitize(f"{listed.id}  {listed.updated}  {turns:>9}  {listed.status:<11}  {listed.user}  {title}".rstrip())
