"""`timeloom export`: writes conversations as JSON to a folder or to standard output."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from timeloom.app import AgentSettings
from timeloom.cli.command import (
    async_command,
    data_dir_option,
    open_store_for_reading,
    print_error,
    select_conversations,
)
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.ports.store import Store
from timeloom.runtime.archive.write_archive import ArchivedCounts, ArchiveWriter
from timeloom.runtime.read.export import export_sources, export_timeline


@click.command()
@data_dir_option
@click.option("--conversation", "only", metavar="ID", help="Export only this conversation; the default is all.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line instead of writing files.")
@click.option("--sources", is_flag=True, help="With --json: print the sources pools instead of the timelines.")
@click.option(
    "--archive",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE|-",
    help="Write one archive for `timeloom import`, with hashes, payloads and workspaces.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("export"),
    show_default=True,
    help="Folder for the files.",
)
@async_command
async def export(
    data_dir: Path, only: str | None, *, as_json: bool, sources: bool, archive: Path | None, out: Path
) -> int:
    """Export conversations as `conv.timeline.v1` JSON, with their sources pools.

    A damaged conversation is reported and skipped; the exit code is 1 then.

    \b
    Files: OUT/<conversation>/timeline.json and OUT/<conversation>/sources_pool.json
    Examples:
      timeloom export --json --conversation conv_... > timeline.json
      timeloom export --archive conversations.tar
    """
    if sources and not as_json:
        raise click.UsageError("--sources needs --json; without --json the sources are always written to a file")
    if archive and as_json:
        raise click.UsageError("--archive and --json are two formats; pass one of them")
    if archive:
        return await _export_archive(data_dir, only, archive)
    failed = 0
    async with open_store_for_reading(data_dir) as store:
        async for conversation in select_conversations(store, only):
            try:
                if as_json:
                    await _print_conversation(store, conversation, sources=sources)
                else:
                    await write_files(store, conversation, out)
            except CodedError as error:
                print_error(error, conversation)
                failed += 1
    return 1 if failed else 0


async def _print_conversation(store: Store, conversation: ConversationId, *, sources: bool) -> None:
    pieces = export_sources(store, conversation) if sources else export_timeline(store, conversation)
    # Print whole lines only: a damaged conversation must not leave half an object in the output.
    line = b"".join([piece async for piece in pieces])
    sys.stdout.buffer.write(line + b"\n")


async def _export_archive(data_dir: Path, only: str | None, path: Path) -> int:
    if str(path) == "-":
        return await _write_archive(data_dir, only, sys.stdout.buffer, None)
    # Whole conversations are private; an export in JSON may be made for others.
    with _replace_atomically(path, mode=0o600) as file:
        return await _write_archive(data_dir, only, file, path.parent)


async def _write_archive(data_dir: Path, only: str | None, out: BinaryIO, spool_folder: Path | None) -> int:
    failed = 0
    workspaces = AgentSettings(data_dir=data_dir).workspaces
    async with open_store_for_reading(data_dir) as store:
        writer = ArchiveWriter(out, spool_folder)
        async for conversation in select_conversations(store, only):
            try:
                counts = await writer.add(store, conversation, workspaces)
            except CodedError as error:
                print_error(error, conversation)
                failed += 1
            else:
                _print_counts(counts)
        writer.finish()
    return 1 if failed else 0


def _print_counts(counts: ArchivedCounts) -> None:
    left_out = f"; left out {counts.left_out} links and special files" if counts.left_out else ""
    click.echo(
        f"Archived {counts.conversation}: {counts.entries} entries, {counts.payloads} payloads, "
        f"{counts.files} files{left_out}",
        err=True,
    )


async def write_files(store: Store, conversation: ConversationId, out: Path) -> None:
    """Write the timeline and the sources pool to `out/<conversation>/`; each file is replaced atomically."""
    for name, pieces in (
        ("timeline.json", export_timeline(store, conversation)),
        ("sources_pool.json", export_sources(store, conversation)),
    ):
        path = out / conversation / name
        with _replace_atomically(path) as file:
            async for piece in pieces:
                file.write(piece)
            file.write(b"\n")
        click.echo(f"Exported {click.format_filename(path)}")


@contextmanager
def _replace_atomically(path: Path, mode: int = 0o666) -> Generator[BinaryIO]:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.touch(mode=mode)
        with partial.open("wb") as file:
            yield file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
