"""`timeloom demo`: writes, shows, exports and verifies a sample conversation."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from msgspec.structs import replace

from timeloom.cli.command import async_command, data_dir_option
from timeloom.cli.commands.demo.script import QUESTION, demo_steps
from timeloom.cli.commands.export import write_files
from timeloom.cli.commands.verify import print_verified
from timeloom.core.blocks import Completion, ModelCalled
from timeloom.core.citations.rewriter import CitationRewriter
from timeloom.core.ids import ConversationId, make_conversation_id
from timeloom.core.plans.marks import marker
from timeloom.core.render.prompt import PromptView
from timeloom.core.timeline import Draft, Entry, to_entry
from timeloom.core.view.plans import plans_to_announce
from timeloom.core.view.turn_index import turn_index
from timeloom.core.view.views import Views, fold
from timeloom.data_folder import EXPORTS_FOLDER
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.store import Store
from timeloom.runtime.prompt.hashing import request_sha256
from timeloom.stores.sqlite import SqliteStore


@click.command()
@data_dir_option
@async_command
async def demo(data_dir: Path) -> int:
    """Write a sample conversation, show it, export it and verify the data folder.

    The conversation is a fixed script, so no model is called and no API key is needed. It is stored like any other.
    """
    clock, ids = SystemClock(), RandomIds()
    conversation = make_conversation_id(clock.epoch_us() // 1000, ids.bits())
    async with await SqliteStore.open(data_dir) as store:
        entries = await _write(store, conversation, demo_steps(clock, ids))
        _print_conversation(entries, fold(entries))
        click.echo("")
        await write_files(store, conversation, data_dir / EXPORTS_FOLDER)
        found = await store.verify()
    print_verified(found)
    export_command = shlex.join(
        [sys.argv[0], "export", "--data-dir", str(data_dir), "--json", "--conversation", conversation]
    )
    click.echo(f"\nPrint the conversation as JSON with:\n  {export_command}")
    return 1 if found.findings else 0


async def _write(store: Store, conversation: ConversationId, steps: Sequence[Sequence[Draft]]) -> list[Entry]:
    entries: list[Entry] = []
    for step in _with_hashes(steps):
        entries += await store.append(conversation, len(entries), step)
    return entries


def _with_hashes(steps: Sequence[Sequence[Draft]]) -> Iterator[list[Draft]]:
    """Yield the steps, each model call with the hash of its prompt, so that `timeloom replay` finds it the same."""
    views, prompt = Views(), PromptView()
    for step in steps:
        ready: list[Draft] = []
        for draft in step:
            block = draft.block
            if isinstance(block, ModelCalled):
                sha256 = request_sha256("", prompt.fingerprint(), "")
                block = replace(block, request_sha256=sha256, rendering=prompt.renderer.number)
            ready.append(replace(draft, block=block))
            entry = to_entry(ready[-1], views.tail + 1)
            views.add(entry)
            prompt.add(entry, views)
        yield ready


def _print_conversation(entries: Sequence[Entry], views: Views) -> None:
    click.echo(f"Question: {QUESTION}\n")
    click.echo("The timeline, block by block:")
    for entry in entries:
        mark = "hidden" if entry.seq in views.visible.gone else ""
        click.echo(f"  {entry.seq:>2}  {entry.block.type_name:<22} {mark:<7}{entry.path}")
    for plan in plans_to_announce(views.plans) or [lineage.snapshot for lineage in views.plans.lineages.values()]:
        click.echo(f"\nThe plan, {plan.state}:")
        for n, (step, status) in enumerate(zip(plan.steps, plan.statuses, strict=True), 1):
            click.echo(f"  {marker(status)} [{n}] {step}")
    answer = next(entry.block for entry in reversed(entries) if isinstance(entry.block, Completion))
    rewriter = CitationRewriter(views.sources.pool.list_rows(), format="markdown")
    click.echo("\nThe answer, with its citations resolved:")
    click.echo(f"  {rewriter.feed(str(answer.text)) + rewriter.close()}")
    turn = views.turns.newest
    click.echo("\nThe turn index, by which an agent can read content again:")
    here = [entry for entry in entries if entry.turn_id == turn]
    for row in turn_index(turn, here).rows:
        click.echo(f"  {row.kind:<9}{row.path}  {row.hint[:50]}")
