"""`timeloom import`: stores the conversations of an archive or of exports."""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final

import click
import msgspec

from timeloom.app import AgentSettings
from timeloom.cli.command import async_command, data_dir_option, has_conversations, open_existing_store
from timeloom.cli.sanitize import sanitize
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.ports.store import Store
from timeloom.runtime.archive.import_conversations import (
    ImportOptions,
    ImportResult,
    check_import,
    import_conversation,
)
from timeloom.runtime.archive.read_archive import ArchiveReader, FoundConversation
from timeloom.runtime.archive.read_exports import iter_exports
from timeloom.stores.sqlite import SqliteStore
from timeloom.wire.linked_entries import ArchiveError

MAX_SPOOL_BYTES: Final = 64 * 1024**3
"""Most bytes that are taken from standard input, where an endless stream would fill the disk."""

PROGRESS_BYTES: Final = 256 * 1024**2
_CHUNK_BYTES: Final = 1 << 20
_COMPRESSED: Final = {
    b"\x1f\x8b": "gunzip -c",
    b"\x28\xb5\x2f\xfd": "zstd -dc",
    b"\xfd7zXZ": "xz -dc",
    b"BZh": "bunzip2 -c",
}

OpenConversations = Callable[[], Iterator[FoundConversation]]


@click.command("import")
@data_dir_option
@click.option("--dry-run", is_flag=True, help="Check everything and print the outcome, and change nothing.")
@click.option("--skip-existing", is_flag=True, help="Skip conversations that exist instead of refusing the import.")
@click.option("--open-turns", is_flag=True, help="Accept conversations with an open turn, which will be resumed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per conversation and line.")
@click.argument("source", metavar="FILE|-|FOLDER")
@async_command
async def import_archive(
    data_dir: Path, source: str, *, dry_run: bool, skip_existing: bool, open_turns: bool, as_json: bool
) -> int:
    """Import conversations that `timeloom export` has written.

    FILE is an archive (`--archive`) or an export in JSON, `-` is standard input, and FOLDER is a folder of exports.
    Everything is checked before anything is stored: every record, hash, payload and file. Each conversation keeps its
    id, owner and hashes, and is stored completely or not at all. After an interruption, run it again with
    --skip-existing.

    \b
    Example: timeloom export --archive - | timeloom import - --data-dir other
    """
    options = ImportOptions(skip_existing=skip_existing, open_turns=open_turns)
    with ExitStack() as files:
        sources = _open_sources(source, files)
        if not has_conversations(data_dir):
            results = await _check(None, sources, options)
            if dry_run:
                return _print_results(results, as_json=as_json)
            async with await SqliteStore.open(data_dir) as store:
                return await _import(store, data_dir, sources, options, as_json=as_json)
        async with open_existing_store(data_dir) as store:
            results = await _check(store, sources, options)
            if dry_run:
                return _print_results(results, as_json=as_json)
            return await _import(store, data_dir, sources, options, as_json=as_json)


async def _check(store: Store | None, sources: list[OpenConversations], options: ImportOptions) -> list[ImportResult]:
    results: list[ImportResult] = []
    seen: set[ConversationId] = set()
    for open_conversations in sources:
        conversations = open_conversations()
        while found := await asyncio.to_thread(next, conversations, None):
            if found.imported.id in seen:
                raise ArchiveError(f"conversation {found.imported.id} comes twice")
            seen.add(found.imported.id)
            results.append(await check_import(store, found, options))
    return results


async def _import(
    store: Store, data_dir: Path, sources: list[OpenConversations], options: ImportOptions, *, as_json: bool
) -> int:
    workspaces = AgentSettings(data_dir=data_dir).workspaces
    for open_conversations in sources:
        conversations = open_conversations()
        while found := await asyncio.to_thread(next, conversations, None):
            result = await import_conversation(store, data_dir, workspaces, found, options)
            _print_results([result], as_json=as_json)
    return 0


def _open_sources(source: str, files: ExitStack) -> list[OpenConversations]:
    if source == "-":
        return [_open_file(sys.stdin.buffer, files)]
    path = Path(source)
    if path.is_dir():
        found = sorted({*path.glob("timeline.json"), *path.glob("*/timeline.json")})
        if not found:
            raise click.BadParameter("the folder has no <conversation>/timeline.json", param_hint="FOLDER")
        return [_open_later(each) for each in found]
    try:
        return [_open_file(files.enter_context(path.open("rb")), files)]
    except FileNotFoundError as error:
        raise click.BadParameter(f"{click.format_filename(path)} does not exist", param_hint="FILE") from error


def _open_later(path: Path) -> OpenConversations:
    def open_conversations() -> Iterator[FoundConversation]:
        with path.open("rb") as file:
            yield from iter_exports(file)

    return open_conversations


def _open_file(file: BinaryIO, files: ExitStack) -> OpenConversations:
    """Return a function that reads the file from its start; a stream is copied to a temporary file first."""
    if not file.seekable():
        spool = files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
        file = _spool(file, spool)
    file.seek(0)
    start = file.read(4)
    for magic, command in _COMPRESSED.items():
        if start.startswith(magic[:4]):
            raise ArchiveError(f"the file is compressed; use `{command} FILE | timeloom import -`")
    size = file.seek(0, 2)

    def open_conversations() -> Iterator[FoundConversation]:
        file.seek(0)
        return iter_exports(file) if start[:1] == b"{" else ArchiveReader(file, progress).iter_conversations()

    progress = _Progress(size)
    return open_conversations


def _spool(stream: BinaryIO, spool: BinaryIO) -> BinaryIO:
    size = 0
    while chunk := stream.read(_CHUNK_BYTES):
        size += len(chunk)
        if size > MAX_SPOOL_BYTES:
            raise CodedError(
                "file_too_large", f"standard input has more than {MAX_SPOOL_BYTES} bytes; pass the name of a file"
            )
        spool.write(chunk)
    return spool


class _Progress:
    """Prints a line on standard error each time another part of a long archive was read."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._next = PROGRESS_BYTES

    def __call__(self, offset: int) -> None:
        if offset < PROGRESS_BYTES:
            self._next = PROGRESS_BYTES
        elif offset >= self._next:
            self._next = offset + PROGRESS_BYTES
            click.echo(f"read {offset >> 20} of {self._size >> 20} MiB", err=True)


def _print_results(results: list[ImportResult], *, as_json: bool) -> int:
    for result in results:
        click.echo(msgspec.json.encode(result).decode() if as_json else sanitize(_format_result(result)))
    return 0


def _format_result(result: ImportResult) -> str:
    if result.outcome == "skipped":
        return f"Skipped {result.conversation}: it exists already"
    verb = "Imported" if result.outcome == "imported" else "Would import"
    owner = f"{result.tenant}/{result.project}/{result.user}"
    counts = f"{result.entries} entries, {result.payloads} payloads, {result.files} files"
    return f"{verb} {result.conversation} of {owner}: {counts}{', with an open turn' if result.is_open else ''}"
