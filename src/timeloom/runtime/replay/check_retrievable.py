"""Checks that the model can read again every block that is no longer visible in its prompt, byte for byte.

A block is retrievable if at most two `react.read` calls return all of its content. The first call uses a path in the
next prompt. A second call may use a path that the first one returned, such as one in a summary or a turn's index.
"""

import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from timeloom.core.blocks import AnyBlock, ContentBlock, SourcesAdded, ToolCall
from timeloom.core.blocks.extract_payloads import put_back, references
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.paths import EntriesPath, PathError, TurnIndexesPath, TurnIndexPath, parse, select
from timeloom.core.payload import BlobRef
from timeloom.core.render.entries.block_text import entry_text
from timeloom.core.render.entries.entry_text import SILENT, needed_payloads
from timeloom.core.render.foreign_text.fence import unfence
from timeloom.core.render.prompt import PromptView, needed_seqs
from timeloom.core.render.tail.sources_section import sources_section
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Entry
from timeloom.core.tokens import estimate
from timeloom.core.view.views import Views, fold
from timeloom.ports.store import Finding, Store
from timeloom.ports.tool import Caller, ToolContext
from timeloom.tools.react.read import ReadLimits
from timeloom.tools.react.resolve import EmptyShelf, Readable, resolve
from timeloom.tools.react.windows import Bounds, whole_or_window
from timeloom.wire.block_json import block_json, encode_block

PAGE: Final = 500
NEXT_TURN: Final = TurnId("turn_next")
"""The turn id used for the reads; it has no files."""

_NAMED: Final = re.compile(r"""(?:ar|tc|fi|so|su|ws|sk|ks):[^\s"'()\]]+(?:\][^\s"'()\]]*)?""")
_LOG: Final = re.compile(r"ar:log\[[0-9, -]+\]")
_HEADERS: Final = re.compile(r"^\[TURN (turn_[A-Za-z0-9_-]+)\] ", re.MULTILINE)
_INDEXES: Final = re.compile(r"ar:turns\[[0-9, -]+\]\.react\.turn\.index")


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one conversation: how many blocks are fully visible, and how the others are retrieved."""

    conversation: ConversationId
    entries: int
    in_sight: int = 0
    one_read: int = 0
    two_reads: int = 0
    erased: int = 0
    silent: int = 0
    """Blocks that no prompt ever shows."""
    lost: tuple[Finding, ...] = ()


async def check_recovery(store: Store, conversation: ConversationId) -> Recovery:
    """Check every entry of the conversation against its next prompt; it reads all payloads and changes nothing."""
    tenant = (await store.info(conversation)).tenant
    entries: list[Entry] = []
    while page := await store.load(conversation, after=len(entries), limit=PAGE):
        entries += page
    with tempfile.TemporaryDirectory() as folder:
        timeline = _Timeline(store, tenant, entries)
        checker = _Checker(conversation, timeline, Path(folder))
        return await checker.check()


class _Timeline:
    """The conversation as tools see it."""

    def __init__(self, store: Store, tenant: str, entries: Sequence[Entry]) -> None:
        self._store = store
        self.tenant = tenant
        self.all = entries
        self.views = fold(entries)

    async def entries(self, seqs: Sequence[int]) -> list[Entry]:
        return [self.all[seq - 1] for seq in seqs]

    async def payload(self, ref: BlobRef) -> bytes:
        return await self._store.read_blob(self.tenant, ref)

    async def whole(self, entry: Entry) -> Entry:
        payloads = {ref: await self.payload(ref) for ref in references(entry)}
        return put_back(entry, payloads.__getitem__)

    async def prompt(self) -> str:
        """Return the part of the next prompt that shows the conversation."""
        needed = {seq: self.all[seq - 1] for seq in needed_seqs(self.views)}
        payloads = {ref: await self.payload(ref) for one in needed.values() for ref in needed_payloads(one)}
        view = PromptView.opened(self.views, needed, payloads)
        return "".join(segment.text for segment in view.segments()) + sources_section(self.views.sources.pool)


class _Names:
    """The paths that a text names."""

    def __init__(self, text: str, views: Views) -> None:
        self._text = text
        self._paths = {found.rstrip(".,:;") for found in _NAMED.findall(text)} | set(_NAMED.findall(text))
        self._places = {seq for found in _LOG.findall(text) for seq in _numbers(found)}
        turns = {turn.n: turn_id for turn_id, turn in views.turns.turns.items()}
        numbers = (number for found in _INDEXES.findall(text) for number in _numbers(found))
        # The instructions explain how to read the index of a turn, so a turn's header names its index.
        headers = {TurnId(found) for found in _HEADERS.findall(text)}
        self._turns = {turns[number] for number in numbers if number in turns} | headers

    def path(self, path: str) -> bool:
        """Return whether the text names the path; a path with a space is searched as plain text."""
        return bool(path) and (path in self._paths or (" " in path and path in self._text))

    def place(self, seq: int) -> bool:
        """Return whether the text names the entry by its seq."""
        return seq in self._places

    def index(self, turn: TurnId) -> bool:
        """Return whether the text names the index of that turn."""
        return bool(turn) and (turn in self._turns or self.path(str(TurnIndexPath(turn))))

    def documents(self) -> list[str]:
        """Return the paths of summaries that the text names; they may name further paths."""
        return sorted(path for path in self._paths if path.startswith(("su:", "ws:")))


@dataclass(slots=True)
class _Tally:
    """The counts for the entries checked so far."""

    in_sight: int = 0
    one_read: int = 0
    two_reads: int = 0
    erased: int = 0
    silent: int = 0
    lost: list[Finding] = field(default_factory=list[Finding])


class _Checker:
    def __init__(self, conversation: ConversationId, timeline: _Timeline, out_dir: Path) -> None:
        self._conversation = conversation
        self._timeline = timeline
        self._out_dir = out_dir
        self._documents: dict[str, _Names | None] = {}
        self._tally = _Tally()
        shown = timeline.views.visible.shown.values()
        self._standing = {stand.by for stand in shown if stand and stand.kind == "summary"}

    async def check(self) -> Recovery:
        """Check all entries and return the report."""
        sight = _Names(await self._timeline.prompt(), self._timeline.views)
        for entry in self._timeline.all:
            try:
                await self._look_at(entry, sight)
            except CodedError as error:
                self._lose(entry, error.code, str(error))
        tally = self._tally
        return Recovery(
            conversation=self._conversation,
            entries=len(self._timeline.all),
            in_sight=tally.in_sight,
            one_read=tally.one_read,
            two_reads=tally.two_reads,
            erased=tally.erased,
            silent=tally.silent,
            lost=tuple(tally.lost),
        )

    async def _look_at(self, entry: Entry, sight: _Names) -> None:
        tally = self._tally
        whole = await self._timeline.whole(entry)
        if entry.block.erased:
            tally.erased += 1
        elif _is_silent(whole):
            tally.silent += 1
        elif self._is_in_sight(whole):
            tally.in_sight += 1
        else:
            match await self._reads(whole, sight):
                case 1:
                    tally.one_read += 1
                case 2:
                    tally.two_reads += 1
                case _:
                    self._lose(entry, "block_lost", "the prompt leads to no path that returns it within two reads")

    def _lose(self, entry: Entry, code: str, why: str) -> None:
        name = f"{entry.block.type_name} {entry.path}".rstrip()
        message = f"entry {entry.seq} ({name}): {why}"
        self._tally.lost.append(Finding(code, message, self._conversation, entry.seq))

    def _is_in_sight(self, whole: Entry) -> bool:
        """Return whether the prompt shows the entry's whole content."""
        visible = self._timeline.views.visible
        if whole.seq in self._standing:
            return True
        return whole.seq in visible.shown and visible.shown[whole.seq] is None and _is_shown_whole(whole)

    async def _reads(self, whole: Entry, sight: _Names) -> int:
        """Return the number of reads (1 or 2) that return the entry's whole content; 0 if it is unreachable."""
        if await self._is_named(whole, sight) or await self._is_in_pool(whole.block):
            return 1
        documents = [str(TurnIndexPath(whole.turn_id))] if sight.index(whole.turn_id) else []
        for path in (*documents, *sight.documents()):
            names = await self._document(path)
            if names and await self._is_named(whole, names):
                return 2
        return 0

    async def _is_named(self, whole: Entry, names: _Names) -> bool:
        """Return whether a path in `names` leads to the entry's whole content."""
        place = str(EntriesPath.of([whole.seq]))
        paths = [path for path in (whole.path, whole.alias) if names.path(path)]
        for path in (*paths, *([place] if names.place(whole.seq) else [])):
            if await self._gives(path, whole):
                return True
        return False

    async def _is_in_pool(self, block: AnyBlock) -> bool:
        """Return whether the block's sources can be read by their ids, which every prompt lists or explains."""
        if not isinstance(block, SourcesAdded):
            return False
        for row in block.rows:
            found = await self._resolved(str(select([row.sid])))
            if not any(one.text and _body(row) in _paged(one.text) for one in found):
                return False
        return True

    async def _document(self, path: str) -> _Names | None:
        """Return the paths that a read of `path` names."""
        if path not in self._documents:
            texts = [_paged(found.text) for found in await self._resolved(path) if found.text is not None]
            self._documents[path] = _Names("\n".join(texts), self._timeline.views) if texts else None
        return self._documents[path]

    async def _gives(self, path: str, whole: Entry) -> bool:
        wanted = _held(whole)
        for found in await self._resolved(path):
            if isinstance(wanted, bytes):
                if found.data == wanted:
                    return True
            elif found.text is not None and wanted in _paged(found.text):
                return True
        return False

    async def _resolved(self, path: str) -> tuple[Readable, ...]:
        header = self._timeline.views.conversation.header
        caller = Caller(tenant=header.tenant, project=header.project, user=header.user) if header else None
        assert caller is not None
        context = ToolContext(
            conversation=self._conversation,
            turn_id=NEXT_TURN,
            tool_call_id=CallId("recovery"),
            caller=caller,
            timeline=self._timeline,
            out_dir=self._out_dir,
            emit=_silent,
            epoch_us=0,
        )
        try:
            return (await resolve(parse(path), context, EmptyShelf())).readables
        except CodedError:
            return ()


def _silent(_channel: str, _text: str, /) -> None:
    """Discard emitted output."""


def _is_silent(whole: Entry) -> bool:
    """Return whether the entry never has content in a prompt or in a read."""
    block = whole.block
    if isinstance(block, ContentBlock):
        return block.text is None and block.data is None
    if isinstance(block, SourcesAdded):
        return not any(map(_body, block.rows))
    return block.type_name in SILENT or entry_text(whole).is_empty


def _body(row: SourceRow) -> str:
    body = row.content or row.text
    return body if isinstance(body, str) else ""


def _is_shown_whole(whole: Entry) -> bool:
    made = entry_text(whole)
    match whole.block:
        case ContentBlock(data=bytes()):
            return made.data is not None
        case ToolCall():
            return "[see " not in made.text
        case block:
            said: object = getattr(block, "text", "")
            return (
                not isinstance(said, str) or _bare(said) in _bare(unfence(made.text)) or _bare(said) in _bare(made.text)
            )


def _held(whole: Entry) -> str | bytes:
    """Return the entry's whole content: its bytes, its text, or else its JSON form."""
    block = whole.block
    if isinstance(block, ContentBlock) and isinstance(block.data, bytes):
        return block.data
    said: object = getattr(block, "text", None)
    if isinstance(said, str):
        return said
    return block_json(whole).text or encode_block(whole).decode()


def _paged(text: str) -> str:
    """Return the text as consecutive reads show it; empty if it exceeds the read limit."""
    limits = ReadLimits()
    if len(text.encode("utf-8", "surrogatepass")) > limits.text_bytes:
        return ""
    bounds = Bounds(limits.text_symbols, limits.tokens)
    window = whole_or_window(text, bounds, estimate)
    parts = [window.text]
    while window.more:
        window = whole_or_window(text, bounds, estimate, window.more)
        parts.append(window.text)
    return "".join(parts)


def _bare(text: str) -> str:
    """Return the text without white space and without the marks that neutralize foreign text."""
    return "".join(text.split()).replace("~", "")


def _numbers(text: str) -> Iterable[int]:
    try:
        path = parse(text)
    except PathError:
        return ()
    return path.numbers if isinstance(path, EntriesPath | TurnIndexesPath) else ()
