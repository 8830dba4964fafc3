"""`timeloom inspect`: a timeline block by block, or one block in full."""

import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec.structs import replace

from timeloom.cli.chat.display.block_summary import gist
from timeloom.cli.command import command_body, data_dir_option, existing_store
from timeloom.cli.sanitize import harmless, one_line
from timeloom.core.blocks import Hidden, Pruned, ToolCall
from timeloom.core.blocks.extract_payloads import references
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef
from timeloom.core.policy.cache.points import cache_points
from timeloom.core.render.entries.block_text import entry_text
from timeloom.core.render.entries.entry_text import needed_payloads
from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views
from timeloom.ports.store import Store
from timeloom.runtime.read.export import with_payloads
from timeloom.runtime.session.load_views import load_views
from timeloom.wire.block_json import block_json, encode_block

PAGE: Final = 500
"""Entries held at once."""

_WIDE: Final = 140
"""Columns from which on paths are worth their place."""

_MEDIUM: Final = 76
"""Columns below which times and sizes are left out."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a block besides what it says: its place, its size, its weight in a prompt, its sight."""

    seq: int
    ts: str
    turn_id: str
    type: str
    path: str
    size_bytes: int
    tokens: int
    sight: str
    """`shown`, or why it is not: `hidden`, `pruned`, `summed up`, `inner` where a program made the call, or `silent`
    where prompts never show it."""
    cache_point: str = ""
    """The cache point that the next request would set after this block."""
    gist: str


@click.command()
@data_dir_option
@click.option("--conversation", "wanted", metavar="ID", help="Which conversation; without it, the newest.")
@click.option("--turn", metavar="TURN", help="Only this turn: its id or its number.")
@click.option("--type", "type_name", metavar="TYPE", help="Only blocks of this type, or of a family: react.tool.*")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line; one block in full with its payloads.")
@click.argument("what", required=False, metavar="[SEQ, PATH or CONVERSATION]")
@command_body
async def inspect(
    data_dir: Path, wanted: str | None, turn: str | None, type_name: str | None, what: str | None, *, as_json: bool
) -> int:
    """Show a timeline block by block, or one block in full.

    Each line has the block's seq, time, type, size in bytes, tokens in a prompt, whether prompts show it, its path and
    what it says; a terminal shows what it has room for. Lines between them are the cache points of the next request.
    SEQ or PATH shows that block with all it holds, CONVERSATION that conversation as --conversation does.
    """
    if what is not None and what.startswith("conv_"):
        if wanted is not None:
            raise click.UsageError("CONVERSATION and --conversation both say which one; give one of them")
        wanted, what = what, None
    async with existing_store(data_dir) as store:
        conversation = await _conversation(store, wanted)
        looking = _Looking(store, conversation, await load_views(store, conversation))
        if what is not None:
            return await _show_one(looking, what, as_json=as_json)
        await _show_rows(looking, looking.pages(turn, type_name), as_json=as_json)
    return 0


class _Looking:
    """A conversation that is looked at."""

    def __init__(self, store: Store, conversation: ConversationId, views: Views) -> None:
        self._store = store
        self.conversation = conversation
        self._views = views
        self._tenant = ""
        points = cache_points(views)
        names = {points.prev_turn: "previous turns", points.pre_tail: "rounds before the last", points.tail: "tail"}
        self._points = {seq: name for seq, name in names.items() if seq}
        self._forgetters: dict[int, str] = {}

    async def pages(self, turn: str | None, type_name: str | None) -> AsyncIterator[list[Entry]]:
        """The entries that were asked for, in order, a page at a time."""
        for first, last in self._spans(turn):
            seq = first - 1
            while seq < last and (page := await self._load(seq, min(PAGE, last - seq))):
                if wanted := [entry for entry in page if _fits(entry.block.type_name, type_name)]:
                    yield wanted
                seq = page[-1].seq

    async def found(self, what: str) -> list[Entry]:
        """The entries with that seq or at that path."""
        seqs = [int(what)] if what.isascii() and what.isdigit() else list(self._views.paths.find(what))
        if not seqs or not 1 <= seqs[0] <= self._views.tail:
            expected = f"expected a seq from 1 to {self._views.tail} or a path"
            raise CodedError("entry_unknown", f"{what[:80]!r} is no block of {self.conversation}; {expected}")
        return [entry for seq in seqs for entry in await self._load(seq - 1, 1)]

    async def whole(self, entry: Entry) -> Entry:
        """The entry with its payloads in place."""
        return replace(entry, block=await with_payloads(self._store, await self._owner(), entry.block))

    async def row(self, entry: Entry) -> Row:
        """What is known of the entry."""
        tokens = await self._tokens(entry)
        stored = sum(ref.size_bytes for ref in references(entry.block))
        return Row(
            seq=entry.seq,
            ts=entry.ts,
            turn_id=entry.turn_id,
            type=entry.block.type_name,
            path=entry.path,
            size_bytes=len(encode_block(entry)) + stored,
            tokens=tokens,
            sight=await self._sight(entry, tokens),
            cache_point=self._points.get(entry.seq, ""),
            gist=gist(entry.block),
        )

    def _spans(self, turn: str | None) -> list[tuple[int, int]]:
        if turn is None:
            return [(1, self._views.tail)]
        turns = self._views.turns.turns
        found = next((known for name, known in turns.items() if turn in (name, str(known.n))), None)
        if found is None:
            raise CodedError("entry_unknown", f"{turn[:60]!r} is no turn of it; it has {len(turns)}, numbered from 1")
        return list(found.spans)

    async def _load(self, after: int, limit: int) -> list[Entry]:
        return await self._store.load(self.conversation, after=after, limit=limit)

    async def _owner(self) -> str:
        self._tenant = self._tenant or (await self._store.info(self.conversation)).tenant
        return self._tenant

    async def _tokens(self, entry: Entry) -> int:
        payloads: dict[BlobRef, bytes] = {}
        for ref in needed_payloads(entry):
            payloads[ref] = await self._store.read_blob(await self._owner(), ref)
        call_id = getattr(entry.block, "tool_call_id", None)
        call = self._views.calls.get(entry.turn_id, call_id) if call_id else None
        return entry_text(entry, call.tool_id if call else "", payloads).tokens

    async def _sight(self, entry: Entry, tokens: int) -> str:
        visible = self._views.visible
        if entry.seq in visible.gone:
            return await self._forgetter(visible.gone[entry.seq])
        return "shown" if tokens else "silent"

    async def _forgetter(self, seq: int) -> str:
        if seq not in self._forgetters:
            (entry,) = await self._load(seq - 1, 1)
            match entry.block:
                case Hidden():
                    self._forgetters[seq] = "hidden"
                case Pruned():
                    self._forgetters[seq] = "pruned"
                case ToolCall():
                    self._forgetters[seq] = "inner"
                case _:
                    self._forgetters[seq] = "summed up"
        return self._forgetters[seq]


async def _conversation(store: Store, wanted: str | None) -> ConversationId:
    if wanted is not None:
        return (await store.info(ConversationId(wanted))).id
    newest = ""
    while page := await store.conversation_ids(after=newest):
        newest = page[-1]
    if not newest:
        raise click.UsageError("there is no conversation yet")
    return ConversationId(newest)


async def _show_rows(looking: _Looking, pages: AsyncIterator[list[Entry]], *, as_json: bool) -> None:
    lines = _Lines()
    if not as_json:
        click.echo(f"conversation {looking.conversation}\n{lines.head()}", err=True)
    async for page in pages:
        rows = [await looking.row(entry) for entry in page]
        click.echo("\n".join(msgspec.json.encode(row).decode() if as_json else lines.line(row) for row in rows))
    if not as_json:
        click.echo(lines.foot(), err=True)


async def _show_one(looking: _Looking, what: str, *, as_json: bool) -> int:
    for n, entry in enumerate(await looking.found(what)):
        row, whole = await looking.row(entry), await looking.whole(entry)
        if as_json:
            click.echo(encode_block(whole))
        else:
            click.echo(("\n" if n else "") + _in_full(row, whole))
    return 0


def _in_full(row: Row, entry: Entry) -> str:
    wire = block_json(entry)
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
        lines += ["", harmless(msgspec.json.format(msgspec.json.encode(wire.meta), indent=2).decode())]
    if wire.base64 is not None:
        lines += ["", f"({len(wire.base64):,} characters of base64; --json prints them)"]
    if wire.text:
        lines += ["", harmless(wire.text, keep_tabs=True)]
    return "\n".join(lines)


class _Lines:
    """Rows as lines: all that is known where nobody has to fit it in, else as much as the terminal has room for."""

    def __init__(self) -> None:
        self._columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        self._blocks = self._tokens = 0

    def head(self) -> str:
        """What stands above the columns."""
        named = Row(seq=0, ts="", turn_id="", type="", path="", size_bytes=0, tokens=0, sight="", gist="")
        return self._cut(self._laid_out(named, ("seq", "time", "type", "bytes", "tokens", "sight", "path", "says")))

    def line(self, row: Row) -> str:
        """The row, and the cache point below it."""
        self._blocks += 1
        self._tokens += row.tokens if row.sight == "shown" else 0
        sight = "" if row.sight == "shown" else row.sight
        sizes = str(row.size_bytes), str(row.tokens)
        cells = (str(row.seq), row.ts[11:19], row.type, *sizes, sight, row.path, row.gist)
        lines = [self._laid_out(row, cells)]
        if row.cache_point:
            lines.append(f"       ---- cache point: {row.cache_point} ----")
        return "\n".join(map(self._cut, lines))

    def foot(self) -> str:
        """What all rows come to."""
        return self._cut(f"{self._blocks:,} blocks, {self._tokens:,} tokens in sight")

    def _laid_out(self, row: Row, cells: tuple[str, ...]) -> str:
        seq, time, kind, size, tokens, sight, path, says = cells
        if self._columns is None or self._columns >= _WIDE:
            return f"{seq:>6} {time:<8} {kind:<24}{size:>9}{tokens:>8} {sight:<10}{path}{'  ' if path else ''}{says}"
        if self._columns >= _MEDIUM:
            return f"{seq:>6} {time:<8} {kind:<24}{size:>8}{tokens:>7} {sight:<10}{says}"
        mark = f"({sight}) " if row.sight not in ("", "shown", "silent") else ""
        return f"{seq:>5} {kind:<18.18}{tokens:>7} {mark}{says}"

    def _cut(self, line: str) -> str:
        """The line without what a terminal would obey, cut where it ends."""
        line = harmless(line).rstrip()
        if self._columns is None:
            return line
        from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 - the table of widths takes 20 ms to load

        if cell_len(line) < self._columns:
            return line
        return set_cell_size(line, max(self._columns - 2, 1)) + "…"


def _fits(name: str, wanted: str | None) -> bool:
    if wanted is None:
        return True
    return name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted
