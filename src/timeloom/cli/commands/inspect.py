"""`timeloom inspect`: lists the blocks of a timeline, or shows one block in full."""

import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec.structs import replace

from timeloom.cli.chat.display.block_summary import summarize_block
from timeloom.cli.command import async_command, data_dir_option, open_store_for_reading
from timeloom.cli.sanitize import one_line, sanitize
from timeloom.core.blocks import Hidden, Pruned, ToolCall
from timeloom.core.blocks.extract_payloads import find_blob_refs
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef
from timeloom.core.policy.cache.points import find_cache_points
from timeloom.core.render.editions import renderer_for
from timeloom.core.render.entry_text import needed_payloads
from timeloom.core.timeline import Entry
from timeloom.core.view.aliases import expand_aliases
from timeloom.core.view.views import Views
from timeloom.ports.store import Store
from timeloom.runtime.read.export import with_payloads
from timeloom.runtime.session.load_views import load_views
from timeloom.wire.block_json import encode_block, to_block_json

PAGE_ENTRIES: Final = 500
"""Entries loaded at once; bounds the memory for a long conversation."""

_WIDE_COLUMNS: Final = 140
"""Minimum terminal columns to show paths."""

_MEDIUM_COLUMNS: Final = 76
"""Minimum terminal columns to show times and sizes."""


class BlockRow(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about one block: its position, size, tokens in a prompt, visibility in prompts and a summary."""

    seq: int
    ts: str
    turn_id: str
    type: str
    path: str
    size_bytes: int
    tokens: int
    sight: str
    """Visibility in prompts: `shown`, `pinned`, `hidden`, `pruned`, `summed up`, `inner` (a program made the call) or
    `silent` (never shown)."""
    cache_point: str = ""
    """The cache point that the next request sets after this block."""
    gist: str


@click.command()
@data_dir_option
@click.option("--conversation", "wanted", metavar="ID", help="The conversation; the default is the newest.")
@click.option("--turn", metavar="TURN", help="Show only this turn, by id, number or alias.")
@click.option("--type", "type_name", metavar="TYPE", help="Show only blocks of this type or family, e.g. react.tool.*")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line; SEQ or PATH with payloads.")
@click.argument("what", required=False, metavar="[SEQ, PATH or CONVERSATION]")
@async_command
async def inspect(
    data_dir: Path, wanted: str | None, turn: str | None, type_name: str | None, what: str | None, *, as_json: bool
) -> int:
    """Show a timeline block by block, or one block in full.

    Columns: seq, time, type, size in bytes, tokens in a prompt, visibility in prompts, path and a summary. A narrow
    terminal shows fewer columns. Lines between blocks mark the cache points of the next request. SEQ or PATH shows that
    block in full. CONVERSATION is the same as --conversation.

    \b
    Examples:
      timeloom inspect conv_... --turn 2 --type react.tool.*
      timeloom inspect 17
    """
    if what is not None and what.startswith("conv_"):
        if wanted is not None:
            raise click.UsageError("CONVERSATION and --conversation exclude each other; pass only one")
        wanted, what = what, None
    async with open_store_for_reading(data_dir) as store:
        conversation = await _find_conversation(store, wanted)
        inspector = _ConversationInspector(store, conversation, await load_views(store, conversation))
        if what is not None:
            return await _print_block(inspector, what, as_json=as_json)
        await _print_rows(inspector, inspector.pages(turn, type_name), as_json=as_json)
    return 0


class _ConversationInspector:
    """Reads the entries of one conversation and the facts about them."""

    def __init__(self, store: Store, conversation: ConversationId, views: Views) -> None:
        self._store = store
        self.conversation = conversation
        self._views = views
        self._tenant = ""
        points = find_cache_points(views)
        names = {
            points.settled: "previous turns",
            points.pre_tail: "rounds before the last",
            points.tail: "tail",
        }
        self._cache_points = {seq: name for seq, name in names.items() if seq}
        self._removal_reasons: dict[int, str] = {}

    async def pages(self, turn: str | None, type_name: str | None) -> AsyncIterator[list[Entry]]:
        """Yield the entries of the turn and type in order, one page at a time."""
        for first, last in self._spans(turn):
            seq = first - 1
            while seq < last and (page := await self._load(seq, min(PAGE_ENTRIES, last - seq))):
                if wanted := [entry for entry in page if _is_type(entry.block.type_name, type_name)]:
                    yield wanted
                seq = page[-1].seq

    async def find_entries(self, what: str) -> list[Entry]:
        """Return the entries with that seq or path; raises `CodedError` if there are none."""
        is_seq = what.isascii() and what.isdigit()
        seqs = [int(what)] if is_seq else list(self._views.paths.find(expand_aliases(what, self._views)))
        if not seqs or not 1 <= seqs[0] <= self._views.tail:
            expected = f"expected a seq from 1 to {self._views.tail} or a path"
            raise CodedError("entry_unknown", f"{what[:80]!r} is not a block of {self.conversation}; {expected}")
        return [entry for seq in seqs for entry in await self._load(seq - 1, 1)]

    async def load_payloads(self, entry: Entry) -> Entry:
        """Return the entry with its payloads inline."""
        return replace(entry, block=await with_payloads(self._store, await self._load_tenant(), entry.block))

    async def make_row(self, entry: Entry) -> BlockRow:
        """Return the row of the entry."""
        tokens = await self._count_tokens(entry)
        stored = sum(ref.size_bytes for ref in find_blob_refs(entry.block))
        return BlockRow(
            seq=entry.seq,
            ts=entry.ts,
            turn_id=entry.turn_id,
            type=entry.block.type_name,
            path=entry.path,
            size_bytes=len(encode_block(entry)) + stored,
            tokens=tokens,
            sight=await self._visibility(entry, tokens),
            cache_point=self._cache_points.get(entry.seq, ""),
            gist=summarize_block(entry.block),
        )

    def _spans(self, turn: str | None) -> list[tuple[int, int]]:
        if turn is None:
            return [(1, self._views.tail)]
        turns = self._views.turns.turns
        found = self._views.turns.find_named(turn)
        if found is None:
            raise CodedError(
                "entry_unknown", f"there is no turn {turn[:60]!r}; turns are numbered from 1 to {len(turns)}"
            )
        return list(turns[found].spans)

    async def _load(self, after: int, limit: int) -> list[Entry]:
        return await self._store.load(self.conversation, after=after, limit=limit)

    async def _load_tenant(self) -> str:
        self._tenant = self._tenant or (await self._store.info(self.conversation)).tenant
        return self._tenant

    async def _count_tokens(self, entry: Entry) -> int:
        payloads: dict[BlobRef, bytes] = {}
        for ref in needed_payloads(entry):
            payloads[ref] = await self._store.read_blob(await self._load_tenant(), ref)
        return renderer_for(self._views.turns.edition).entry_text(entry, self._views, payloads).tokens

    async def _visibility(self, entry: Entry, tokens: int) -> str:
        visible = self._views.visible
        if entry.seq in visible.gone:
            return await self._removal_reason(visible.gone[entry.seq])
        if entry.seq in visible.pinned:
            return "pinned"
        return "shown" if tokens else "silent"

    async def _removal_reason(self, seq: int) -> str:
        if seq not in self._removal_reasons:
            (entry,) = await self._load(seq - 1, 1)
            match entry.block:
                case Hidden():
                    self._removal_reasons[seq] = "hidden"
                case Pruned():
                    self._removal_reasons[seq] = "pruned"
                case ToolCall():
                    self._removal_reasons[seq] = "inner"
                case _:
                    self._removal_reasons[seq] = "summed up"
        return self._removal_reasons[seq]


async def _find_conversation(store: Store, wanted: str | None) -> ConversationId:
    if wanted is not None:
        return (await store.info(ConversationId(wanted))).id
    newest = ""
    while page := await store.conversation_ids(after=newest):
        newest = page[-1]
    if not newest:
        raise click.UsageError("there is no conversation yet; `timeloom chat` starts one")
    return ConversationId(newest)


async def _print_rows(inspector: _ConversationInspector, pages: AsyncIterator[list[Entry]], *, as_json: bool) -> None:
    lines = _RowFormatter()
    if not as_json:
        click.echo(f"conversation {inspector.conversation}\n{lines.format_headings()}", err=True)
    async for page in pages:
        rows = [await inspector.make_row(entry) for entry in page]
        click.echo("\n".join(msgspec.json.encode(row).decode() if as_json else lines.format_row(row) for row in rows))
    if not as_json:
        click.echo(lines.format_totals(), err=True)


async def _print_block(inspector: _ConversationInspector, what: str, *, as_json: bool) -> int:
    for n, entry in enumerate(await inspector.find_entries(what)):
        row, whole = await inspector.make_row(entry), await inspector.load_payloads(entry)
        if as_json:
            click.echo(encode_block(whole))
        else:
            click.echo(("\n" if n else "") + _format_block(row, whole))
    return 0


def _format_block(row: BlockRow, entry: Entry) -> str:
    wire = to_block_json(entry)
    head = {
        "seq": str(row.seq),
        "type": wire.type,
        "path": wire.path,
        "turn": wire.turn_id,
        "time": wire.ts,
        "author": wire.author,
        "mime": wire.mime,
        "size": f"{row.size_bytes:,} bytes",
        "tokens": f"{row.tokens:,}",
        "sight": row.sight,
    }
    lines = [f"{name}: {one_line(value, 1000)}" for name, value in head.items() if value]
    if wire.meta:
        lines += ["", sanitize(msgspec.json.format(msgspec.json.encode(wire.meta), indent=2).decode())]
    if wire.base64 is not None:
        lines += ["", f"({len(wire.base64):,} characters of base64; --json prints them)"]
    if wire.text:
        lines += ["", sanitize(wire.text, keep_tabs=True)]
    return "\n".join(lines)


class _RowFormatter:
    """Formats rows as lines: all columns in a pipe, as many as fit on a terminal."""

    def __init__(self) -> None:
        self._columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        self._blocks = self._tokens = 0

    def format_headings(self) -> str:
        """Return the line of headings."""
        named = BlockRow(seq=0, ts="", turn_id="", type="", path="", size_bytes=0, tokens=0, sight="", gist="")
        return self._cut(self._lay_out(named, ("seq", "time", "type", "bytes", "tokens", "sight", "path", "says")))

    def format_row(self, row: BlockRow) -> str:
        """Return the line of the row, and a line for the cache point after it."""
        self._blocks += 1
        self._tokens += row.tokens if row.sight == "shown" else 0
        sight = "" if row.sight == "shown" else row.sight
        sizes = str(row.size_bytes), str(row.tokens)
        cells = (str(row.seq), row.ts[11:19], row.type, *sizes, sight, row.path, row.gist)
        lines = [self._lay_out(row, cells)]
        if row.cache_point:
            lines.append(f"       ---- cache point: {row.cache_point} ----")
        return "\n".join(map(self._cut, lines))

    def format_totals(self) -> str:
        """Return the totals of all rows."""
        return self._cut(f"{self._blocks:,} blocks, {self._tokens:,} tokens shown")

    def _lay_out(self, row: BlockRow, cells: tuple[str, ...]) -> str:
        seq, time, kind, size, tokens, sight, path, says = cells
        if self._columns is None or self._columns >= _WIDE_COLUMNS:
            return f"{seq:>6} {time:<8} {kind:<24}{size:>9}{tokens:>8} {sight:<10}{path}{'  ' if path else ''}{says}"
        if self._columns >= _MEDIUM_COLUMNS:
            return f"{seq:>6} {time:<8} {kind:<24}{size:>8}{tokens:>7} {sight:<10}{says}"
        mark = f"({sight}) " if row.sight not in ("", "shown", "silent") else ""
        return f"{seq:>5} {kind:<18.18}{tokens:>7} {mark}{says}"

    def _cut(self, line: str) -> str:
        """Return the sanitized line, cut to the width of the terminal."""
        line = sanitize(line).rstrip()
        if self._columns is None:
            return line
        from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 - the table of widths takes 20 ms to load

        if cell_len(line) < self._columns:
            return line
        return set_cell_size(line, max(self._columns - 2, 1)) + "…"


def _is_type(name: str, wanted: str | None) -> bool:
    if wanted is None:
        return True
    return name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted
