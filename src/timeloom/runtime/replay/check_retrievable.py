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
from timeloom.core.blocks.extract_payloads import find_blob_refs, restore_payloads
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.paths import EntriesPath, PathError, TurnIndexesPath, TurnIndexPath, parse_long, select_sources
from timeloom.core.payload import BlobRef
from timeloom.core.render.editions import EDITIONS, renderer_for
from timeloom.core.render.entry_text import SILENT_TYPES, EntryText, needed_payloads
from timeloom.core.render.foreign_text.fence import unfence
from timeloom.core.render.prompt import PromptView, needed_seqs
from timeloom.core.render.v2.fence import unfence_text
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Entry
from timeloom.core.tokens import estimate_tokens
from timeloom.core.view.aliases import expand_aliases, parse_in
from timeloom.core.view.views import Views, fold
from timeloom.ports.store import Store, StoreProblem
from timeloom.ports.tool import Caller, ToolContext
from timeloom.tools.react.read import ReadLimits
from timeloom.tools.react.resolve import NoContent, ReadableContent, resolve
from timeloom.tools.react.windows import WindowBounds, cut_window
from timeloom.wire.block_json import encode_block, to_block_json

PAGE: Final = 500
NEXT_TURN: Final = TurnId("turn_next")
"""The turn id used for the reads; it has no files."""

_PATH_PATTERN: Final = re.compile(r"""(?:ar|tc|fi|so|su|ws|sk|ks):[^\s"'()\]]+(?:\][^\s"'()\]]*)?""")
_ENTRIES_PATTERN: Final = re.compile(r"ar:log\[[0-9, -]+\]")
_TURN_HEADER_PATTERN: Final = re.compile(r"^\[(?:TURN|USER) (turn_[A-Za-z0-9_-]+|t[0-9]+)\](?: |$)", re.MULTILINE)
_TURN_INDEX_PATTERN: Final = re.compile(r"ar:turns\[[0-9, -]+\]\.react\.turn\.index")


class RetrievalReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one conversation: how many blocks are fully visible, and how the others are retrieved."""

    conversation: ConversationId
    entries: int
    in_sight: int = 0
    one_read: int = 0
    two_reads: int = 0
    erased: int = 0
    silent: int = 0
    """Blocks that no prompt ever shows."""
    lost: tuple[StoreProblem, ...] = ()


async def check_retrieval(store: Store, conversation: ConversationId) -> RetrievalReport:
    """Check every entry of the conversation against its next prompt; it reads all payloads and changes nothing."""
    tenant = (await store.info(conversation)).tenant
    entries: list[Entry] = []
    while page := await store.load(conversation, after=len(entries), limit=PAGE):
        entries += page
    with tempfile.TemporaryDirectory() as folder:
        timeline = _LoadedTimeline(store, tenant, entries)
        checker = _RetrievalChecker(conversation, timeline, Path(folder))
        return await checker.check()


class _LoadedTimeline:
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

    async def load_whole(self, entry: Entry) -> Entry:
        payloads = {ref: await self.payload(ref) for ref in find_blob_refs(entry)}
        return restore_payloads(entry, payloads.__getitem__)

    async def render_prompt(self) -> str:
        """Return the part of the next prompt that shows the conversation."""
        needed = {seq: self.all[seq - 1] for seq in needed_seqs(self.views)}
        payloads = {ref: await self.payload(ref) for one in needed.values() for ref in needed_payloads(one)}
        view = PromptView.from_views(self.views, needed, payloads)
        sources = view.renderer.sources(self.views.sources.pool, self.views)
        return "".join(segment.text for segment in view.segments()) + sources


class _NamedPaths:
    """The paths that a text names."""

    def __init__(self, text: str, views: Views) -> None:
        self._text = text
        named = {path for found in _PATH_PATTERN.findall(text) for path in (found, found.rstrip(".,:;"))}
        self._paths = {_expand_aliases(path, views) for path in named}
        self._places = {seq for found in _ENTRIES_PATTERN.findall(text) for seq in _numbers(found)}
        turns = {turn.n: turn_id for turn_id, turn in views.turns.turns.items()}
        numbers = (number for found in _TURN_INDEX_PATTERN.findall(text) for number in _numbers(found))
        # The instructions explain how to read the index of a turn, so a turn's header names its index.
        headers = {views.turns.find_named(found) for found in _TURN_HEADER_PATTERN.findall(text)}
        self._turns = {turns[number] for number in numbers if number in turns} | headers

    def has_path(self, path: str) -> bool:
        """Return whether the text names the path; a path with a space is searched as plain text."""
        return bool(path) and (path in self._paths or (" " in path and path in self._text))

    def has_entry(self, seq: int) -> bool:
        """Return whether the text names the entry by its seq."""
        return seq in self._places

    def has_index(self, turn: TurnId) -> bool:
        """Return whether the text names the index of that turn."""
        return bool(turn) and (turn in self._turns or self.has_path(str(TurnIndexPath(turn))))

    def find_summaries(self) -> list[str]:
        """Return the paths of summaries that the text names; they may name further paths."""
        return sorted(path for path in self._paths if path.startswith(("su:", "ws:")))


@dataclass(slots=True)
class _RetrievalCounts:
    """The counts for the entries checked so far."""

    in_sight: int = 0
    one_read: int = 0
    two_reads: int = 0
    erased: int = 0
    silent: int = 0
    lost: list[StoreProblem] = field(default_factory=list[StoreProblem])


class _RetrievalChecker:
    def __init__(self, conversation: ConversationId, timeline: _LoadedTimeline, out_dir: Path) -> None:
        self._conversation = conversation
        self._timeline = timeline
        self._out_dir = out_dir
        self._documents: dict[str, _NamedPaths | None] = {}
        self._tally = _RetrievalCounts()
        stubs = timeline.views.visible.stubs.values()
        self._shown_summaries = {stub.by for stub in stubs if stub.kind == "summary"}

    async def check(self) -> RetrievalReport:
        """Check all entries and return the report."""
        prompt_paths = _NamedPaths(await self._timeline.render_prompt(), self._timeline.views)
        for entry in self._timeline.all:
            try:
                await self._check_entry(entry, prompt_paths)
            except CodedError as error:
                self._add_lost(entry, error.code, str(error))
        tally = self._tally
        return RetrievalReport(
            conversation=self._conversation,
            entries=len(self._timeline.all),
            in_sight=tally.in_sight,
            one_read=tally.one_read,
            two_reads=tally.two_reads,
            erased=tally.erased,
            silent=tally.silent,
            lost=tuple(tally.lost),
        )

    async def _check_entry(self, entry: Entry, prompt_paths: _NamedPaths) -> None:
        tally = self._tally
        whole = await self._timeline.load_whole(entry)
        if entry.block.erased:
            tally.erased += 1
        elif _has_no_content(whole, self._timeline.views):
            tally.silent += 1
        elif self._is_visible(whole):
            tally.in_sight += 1
        else:
            match await self._count_reads(whole, prompt_paths):
                case 1:
                    tally.one_read += 1
                case 2:
                    tally.two_reads += 1
                case _:
                    self._add_lost(entry, "block_lost", "the prompt leads to no path that returns it within two reads")

    def _add_lost(self, entry: Entry, code: str, why: str) -> None:
        name = f"{entry.block.type_name} {entry.path}".rstrip()
        message = f"entry {entry.seq} ({name}): {why}"
        self._tally.lost.append(StoreProblem(code, message, self._conversation, entry.seq))

    def _is_visible(self, whole: Entry) -> bool:
        """Return whether the prompt shows the entry's whole content."""
        visible = self._timeline.views.visible
        if whole.seq in self._shown_summaries:
            return True
        return (
            whole.seq in visible.shown
            and visible.shown[whole.seq] is None
            and _is_shown_whole(whole, self._timeline.views)
        )

    async def _count_reads(self, whole: Entry, prompt_paths: _NamedPaths) -> int:
        """Return the number of reads (1 or 2) that return the entry's whole content; 0 if it is unreachable."""
        if await self._is_named(whole, prompt_paths) or await self._is_in_pool(whole.block):
            return 1
        documents = [str(TurnIndexPath(whole.turn_id))] if prompt_paths.has_index(whole.turn_id) else []
        for path in (*documents, *prompt_paths.find_summaries()):
            names = await self._load_named_paths(path)
            if names and await self._is_named(whole, names):
                return 2
        return 0

    async def _is_named(self, whole: Entry, names: _NamedPaths) -> bool:
        """Return whether a path in `names` leads to the entry's whole content."""
        place = str(EntriesPath.from_numbers([whole.seq]))
        paths = [path for path in (whole.path, whole.alias) if names.has_path(path)]
        for path in (*paths, *([place] if names.has_entry(whole.seq) else [])):
            if await self._returns_content(path, whole):
                return True
        return False

    async def _is_in_pool(self, block: AnyBlock) -> bool:
        """Return whether the block's sources can be read by their ids, which every prompt lists or explains."""
        if not isinstance(block, SourcesAdded):
            return False
        for row in block.rows:
            found = await self._resolve(str(select_sources([row.sid])))
            if not any(one.text and _row_text(row) in _join_windows(one.text) for one in found):
                return False
        return True

    async def _load_named_paths(self, path: str) -> _NamedPaths | None:
        """Return the paths that a read of `path` names."""
        if path not in self._documents:
            texts = [_join_windows(found.text) for found in await self._resolve(path) if found.text is not None]
            self._documents[path] = _NamedPaths("\n".join(texts), self._timeline.views) if texts else None
        return self._documents[path]

    async def _returns_content(self, path: str, whole: Entry) -> bool:
        wanted = _whole_content(whole)
        for found in await self._resolve(path):
            if isinstance(wanted, bytes):
                if found.data == wanted:
                    return True
            elif found.text is not None and wanted in _join_windows(found.text):
                return True
        return False

    async def _resolve(self, path: str) -> tuple[ReadableContent, ...]:
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
            emit=_discard_output,
            epoch_us=0,
        )
        try:
            return (await resolve(parse_in(path, self._timeline.views), context, NoContent())).readables
        except CodedError:
            return ()


def _expand_aliases(path: str, views: Views) -> str:
    try:
        return expand_aliases(path, views)
    except PathError:
        # Foreign text may name turns that do not exist.
        return path


def _discard_output(_channel: str, _text: str, /) -> None:
    """Discard emitted output."""


def _has_no_content(whole: Entry, views: Views) -> bool:
    """Return whether the entry never has content in a prompt or in a read."""
    block = whole.block
    if isinstance(block, ContentBlock):
        return block.text is None and block.data is None
    if isinstance(block, SourcesAdded):
        return not any(map(_row_text, block.rows))
    # An entry that only one edition shows has content; the other shows it in another entry.
    return block.type_name in SILENT_TYPES or all(
        renderer_for(one).entry_text(whole, views).is_empty for one in EDITIONS
    )


def _render(whole: Entry, views: Views) -> EntryText:
    return renderer_for(views.turns.edition).entry_text(whole, views)


def _row_text(row: SourceRow) -> str:
    body = row.content or row.text
    return body if isinstance(body, str) else ""


def _is_shown_whole(whole: Entry, views: Views) -> bool:
    rendered = _render(whole, views)
    match whole.block:
        case ContentBlock(data=bytes()):
            return rendered.data is not None
        case ToolCall():
            return "[see " not in rendered.text and "\n[READ] " not in rendered.text
        case block:
            text: object = getattr(block, "text", "")
            shown = rendered.text
            return not isinstance(text, str) or any(
                _normalize(text) in _normalize(form) for form in (unfence(shown), shown, unfence_text(shown))
            )


def _whole_content(whole: Entry) -> str | bytes:
    """Return the entry's whole content: its bytes, its text, or else its JSON form."""
    block = whole.block
    if isinstance(block, ContentBlock) and isinstance(block.data, bytes):
        return block.data
    text: object = getattr(block, "text", None)
    if isinstance(text, str):
        return text
    return to_block_json(whole).text or encode_block(whole).decode()


def _join_windows(text: str) -> str:
    """Return the text as consecutive reads show it; empty if it exceeds the read limit."""
    limits = ReadLimits()
    if len(text.encode("utf-8", "surrogatepass")) > limits.text_bytes:
        return ""
    bounds = WindowBounds(limits.text_symbols, limits.tokens)
    window = cut_window(text, bounds, estimate_tokens)
    parts = [window.text]
    while window.more:
        window = cut_window(text, bounds, estimate_tokens, window.more)
        parts.append(window.text)
    return "".join(parts)


def _normalize(text: str) -> str:
    """Return the text without white space and without the marks that neutralize foreign text."""
    return "".join(text.split()).replace("~", "")


def _numbers(text: str) -> Iterable[int]:
    try:
        path = parse_long(text)
    except PathError:
        return ()
    return path.numbers if isinstance(path, EntriesPath | TurnIndexesPath) else ()
