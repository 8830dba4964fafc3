"""`timeloom export`: conversations as JSON, on standard output or in a folder."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from timeloom.cli.command import chosen_conversations, command_body, complain, data_dir_option, existing_store
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.ports.store import Store
from timeloom.runtime.read.export import export_sources, export_timeline


@click.command()
@data_dir_option
@click.option("--conversation", "only", metavar="ID", help="This conversation only; without it, all of them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line instead of writing files.")
@click.option("--sources", is_flag=True, help="With --json: print the sources pools instead of the timelines.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("export"),
    show_default=True,
    help="Folder for the files.",
)
@command_body
async def export(data_dir: Path, only: str | None, *, as_json: bool, sources: bool, out: Path) -> int:
    """Write conversations as `conv.timeline.v1`, with their sources pools.

    \b
    Files: OUT/<conversation>/timeline.json and OUT/<conversation>/sources_pool.json
    One conversation that is damaged does not keep the others from being written; the exit code is 1 then.
    """
    if sources and not as_json:
        raise click.UsageError("--sources goes with --json; files are written with their sources anyway")
    failed = 0
    async with existing_store(data_dir) as store:
        async for conversation in chosen_conversations(store, only):
            try:
                if as_json:
                    await _print(store, conversation, sources=sources)
                else:
                    await write_files(store, conversation, out)
            except CodedError as error:
                complain(error, conversation)
                failed += 1
    return 1 if failed else 0


async def _print(store: Store, conversation: ConversationId, *, sources: bool) -> None:
    pieces = export_sources(store, conversation) if sources else export_timeline(store, conversation)
    # Whole lines only: a conversation that turns out to be damaged must not leave half an object behind.
    line = b"".join([piece async for piece in pieces])
    sys.stdout.buffer.write(line + b"\n")


async def write_files(store: Store, conversation: ConversationId, out: Path) -> None:
    """Writes the timeline and the sources pool into a folder of the conversation's own, whole or not at all."""
    for name, pieces in (
        ("timeline.json", export_timeline(store, conversation)),
        ("sources_pool.json", export_sources(store, conversation)),
    ):
        path = out / conversation / name
        with _replacing(path) as file:
            async for piece in pieces:
                file.write(piece)
            file.write(b"\n")
        click.echo(f"Exported {click.format_filename(path)}")


@contextmanager
def _replacing(path: Path) -> Generator[BinaryIO]:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
