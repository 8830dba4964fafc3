"""The tool `react.read`: shows the content of logical paths in the prompt again."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from timeloom.core.blocks import (
    Attachment,
    Completion,
    ExternalEvent,
    Followup,
    Note,
    Notes,
    RangeSummary,
    ResultContent,
    ResultStatus,
    Shown,
    Steer,
    Thinking,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.codes import CodedError
from timeloom.core.paths import LogicalPath, PathError, SkillPath
from timeloom.core.paths.errors import quote_prefix as shown_path
from timeloom.core.payload import BlobRef, ref_of
from timeloom.core.timeline import Entry
from timeloom.core.tokens import estimate_tokens
from timeloom.ports.tool import Artifact, Outcome, ToolContext
from timeloom.tools.mime import is_viewable, strip_mime_parameters
from timeloom.tools.react.resolve import (
    ContentSource,
    NoContent,
    ReadableContent,
    ResolvedPath,
    resolve,
    to_logical_path,
)
from timeloom.tools.react.windows import CountTokens, LineSpan, ReadWindow, WindowBounds, cut_window

MAX_REQUESTS: Final = 100
"""Most paths of one read. Fewer makes long lists take several rounds; more lets one call read a whole archive."""


class ReadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a read. All but the last apply to each path separately."""

    text_symbols: int = 24_000
    tokens: int = 8_000
    text_bytes: int = 10 * 1024 * 1024
    image_bytes: int = 5 * 1024 * 1024
    pdf_bytes: int = 10 * 1024 * 1024
    call_tokens: int = 32_000
    """Total tokens of all texts of one call. Once it is reached, the remaining texts are only described."""


class ReadItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Lines of one text: `line_count` of them from `line_start`, counted from 1.

    The first begins at its symbol `symbol_start`, counted from 1, so that a very long line can be read in parts.
    """

    path: str
    line_start: int = 1
    line_count: int | None = None
    symbol_start: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTool:
    """`react.read` with its limits, its token counter and its source of skills and knowledge."""

    limits: ReadLimits = field(default_factory=ReadLimits)
    count_tokens: CountTokens = estimate_tokens
    source: ContentSource = field(default_factory=NoContent)

    async def read(
        self,
        context: ToolContext,
        paths: tuple[str, ...] = (),
        items: tuple[ReadItem, ...] = (),
        stats_only: bool = False,
        max_text_symbols: int | None = None,
    ) -> Outcome:
        """Show the content of paths: messages, results, files, sources, summaries.

        A text that is too long comes in part, each line behind its number, and the result says how to read on. Text
        that is in sight already is not repeated.

        paths: what to read in full
        items: what to read in part
        stats_only: true for sizes and line counts only
        max_text_symbols: a smaller limit for each text
        """
        requests = [*(ReadItem(path=path) for path in paths), *items]
        _check_requests(requests, max_text_symbols)
        report = _ReadReport(self, context, stats_only, max_text_symbols)
        for request in dict.fromkeys(requests):
            await report.add(request)
        return report.outcome()


class ReadInfo(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The status of one item that was read."""

    path: str
    mime: str
    size_bytes: int
    physical_path: str = ""
    text_symbols: int | None = None
    line_count: int | None = None
    tokens: int | None = None
    lines: str = ""
    cut_line: int | None = None
    next_item: ReadItem | None = None
    left_out: str = ""


class ReadStatus(msgspec.Struct, kw_only=True):
    """The status of a read; `reasons` gives the reason for each missing path."""

    paths: list[str] = []
    missing: list[str] = []
    missing_skills: list[str] = []
    exists_in_visible_context: list[str] = []
    total_tokens: int = 0
    items: list[ReadInfo] = []
    reasons: dict[str, str] = {}


class _ReadReport:
    """Builds the outcome of one read."""

    def __init__(self, tool: ReadTool, context: ToolContext, stats_only: bool, max_text_symbols: int | None) -> None:
        self._tool, self._context, self._stats_only = tool, context, stats_only
        symbols = tool.limits.text_symbols if max_text_symbols is None else max_text_symbols
        self._symbols = min(symbols, tool.limits.text_symbols)
        self._status = ReadStatus()
        self._artifacts: list[Artifact] = []
        self._emitted: set[tuple[str, str]] = set()

    async def add(self, request: ReadItem) -> None:
        """Add the content of one path, or the reason why it is missing."""
        try:
            path = to_logical_path(request.path, self._context.turn_id, self._context.timeline.views)
        except PathError as error:
            self._add_missing(shown_path(request.path), error, skill=False)
            return
        try:
            found = await resolve(path, self._context, self._tool.source)
        except CodedError as error:
            self._add_missing(str(path), error, skill=isinstance(path, SkillPath))
            return
        await self._add_resolved(path, request, found)

    def outcome(self) -> Outcome:
        """Return the outcome: the status first, then the content."""
        status = msgspec.json.encode(self._status).decode()
        return Outcome(status=status, artifacts=tuple(self._artifacts))

    async def _add_resolved(self, path: LogicalPath, request: ReadItem, found: ResolvedPath) -> None:
        self._status.paths.append(str(path))
        for gone in found.missing:
            self._status.missing.append(gone)
            self._status.reasons[gone] = "path_not_found: the sources pool has no such row"
        for readable in found.readables:
            item = ReadInfo(
                path=readable.path,
                mime=readable.mime,
                size_bytes=readable.size_bytes,
                physical_path=readable.physical_path,
                left_out="" if readable.complete else "only the beginning of this file was kept",
            )
            self._status.items.append(item)
            if readable.text is None:
                await self._add_data(readable, item)
            else:
                await self._add_text(readable.text, readable, item, request)

    def _add_missing(self, path: str, error: CodedError, *, skill: bool) -> None:
        (self._status.missing_skills if skill else self._status.missing).append(path)
        self._status.reasons[path] = f"{error.code}: {error}"

    async def _add_data(self, readable: ReadableContent, item: ReadInfo) -> None:
        """Add an image or a PDF if it is within the limit; for other types only the metadata."""
        limits = self._tool.limits
        limit = limits.pdf_bytes if strip_mime_parameters(readable.mime) == "application/pdf" else limits.image_bytes
        if not is_viewable(readable.mime):
            item.left_out = _describe_binary(self._context.timeline.views.turns.edition)
        elif readable.size_bytes > limit:
            item.left_out = f"larger than the {limit} bytes that are shown of {strip_mime_parameters(readable.mime)}"
        elif self._stats_only:
            return
        elif await self._is_shown(readable.path, readable.data or b""):
            self._status.exists_in_visible_context.append(readable.path)
            return
        if not self._stats_only:
            data = None if item.left_out else readable.data
            self._artifacts.append(_to_artifact(readable, data=data, shown=None))

    async def _add_text(self, text: str, readable: ReadableContent, item: ReadInfo, request: ReadItem) -> None:
        item.text_symbols = len(text)
        if readable.size_bytes > self._tool.limits.text_bytes:
            item.left_out = f"larger than the {self._tool.limits.text_bytes} bytes of text that are read"
            return
        # A long text takes a while, so it is processed in a thread.
        window = await asyncio.to_thread(self._cut_window, text, request)
        item.line_count = window.total_lines
        if self._stats_only:
            item.tokens = await asyncio.to_thread(self._tool.count_tokens, text)
            return
        _describe_window(item, window)
        if await self._is_shown(readable.path, window.numbered or text):
            self._status.exists_in_visible_context.append(readable.path)
            return
        self._status.total_tokens += window.tokens
        if self._status.total_tokens > self._tool.limits.call_tokens:
            self._status.total_tokens -= window.tokens
            item.left_out = "this call has shown as much as one may; read it in a call of its own"
            return
        how = "whole" if window.is_whole else "preview"
        shown = Shown(how=how, tokens=window.tokens, text=window.numbered)
        self._artifacts.append(_to_artifact(readable, text=window.text, shown=shown))

    def _cut_window(self, text: str, request: ReadItem) -> ReadWindow:
        bounds = WindowBounds(self._symbols, self._tool.limits.tokens)
        part = request.line_start > 1 or request.line_count is not None or request.symbol_start > 1
        span = LineSpan(request.line_start, request.line_count, request.symbol_start) if part else None
        return cut_window(text, bounds, self._tool.count_tokens, span)

    async def _is_shown(self, path: str, content: str | bytes) -> bool:
        """Return whether the prompt or this call already shows the same content at this path."""
        wanted = _hash_content(content)
        if (path, wanted) in self._emitted:
            return True
        self._emitted.add((path, wanted))
        timeline = self._context.timeline
        visible = timeline.views.visible
        seqs = [seq for seq in visible.at_path.get(path, ()) if seq in visible.shown and visible.shown[seq] is None]
        entries = await timeline.entries(seqs) if seqs else []
        return any(_hash_content(_content_in_prompt(entry)) == wanted for entry in entries)


def _check_requests(requests: Sequence[ReadItem], max_text_symbols: int | None) -> None:
    if not requests:
        raise CodedError("tool_params_invalid", "react.read takes paths or items, got neither")
    if len(requests) > MAX_REQUESTS:
        raise CodedError("tool_params_invalid", f"one read takes at most {MAX_REQUESTS} paths, got {len(requests)}")
    for request in requests:
        if min(request.line_start, request.symbol_start, 1 if request.line_count is None else request.line_count) < 1:
            raise CodedError("tool_params_invalid", "line_start, line_count and symbol_start count from 1")
    if max_text_symbols is not None and max_text_symbols < 1:
        raise CodedError("tool_params_invalid", f"max_text_symbols is 1 or more, got {max_text_symbols}")


def _describe_window(item: ReadInfo, window: ReadWindow) -> None:
    item.tokens = window.tokens
    if window.is_whole:
        return
    item.lines = window.lines
    item.cut_line = window.last + 1 if window.cut_symbols else None
    if more := window.more:
        item.next_item = ReadItem(
            path=item.path, line_start=more.line_start, line_count=more.line_count, symbol_start=more.symbol_start
        )


def _to_artifact(
    readable: ReadableContent, *, shown: Shown | None, text: str | None = None, data: bytes | None = None
) -> Artifact:
    digest = readable.digest
    return Artifact(
        path=readable.path,
        mime=readable.mime,
        text=text,
        data=data,
        kind=digest.kind if digest else None,
        visibility=digest.visibility if digest else None,
        channel=digest.channel if digest else "",
        physical_path=readable.physical_path,
        sources_used=digest.sources_used if digest else (),
        size_bytes=readable.size_bytes,
        hosting=readable.hosting,
        # A row of the sources pool needs no digest.
        content_only=readable.path.startswith("so:"),
        shown=shown,
    )


def _content_in_prompt(entry: Entry) -> str | bytes | BlobRef | None:
    """Return the content or part of it that the prompt shows for the entry, in the form that a read shows."""
    match entry.block:
        case (
            ResultContent(shown=Shown(how=how, text=text))
            | ResultStatus(shown=Shown(how=how, text=text))
            | Attachment(shown=Shown(how=how, text=text))
        ) if how != "whole":
            return text if how == "preview" else None
        case ResultContent(text=str() | BlobRef() as text):
            return text
        case Attachment(shown=Shown(), text=str() | BlobRef() as text):
            # The text of an attachment is shown only if that was decided when it was added.
            return text
        case ResultContent(mime=mime, data=data) | Attachment(mime=mime, data=data):
            return data if is_viewable(mime) else None
        case (
            ResultStatus(text=text)
            | UserPrompt(text=text)
            | Completion(text=text)
            | Followup(text=text)
            | Steer(text=text)
            | ExternalEvent(text=text)
            | Thinking(text=text)
            | Notes(text=text)
            | Note(text=text)
            | WorkingSummary(text=text)
            | RangeSummary(text=text)
        ):
            return text
        case _:
            # Other blocks, such as tool calls, are shortened or rephrased in the prompt.
            return None


def _describe_binary(edition: int) -> str:
    """Return why the content of a binary file is missing; prompts of edition 2 show no physical paths."""
    how = "open it with code" if edition > 1 else "open it at its physical_path with code"
    return f"a binary file: only its metadata can be shown; {how}"


def _hash_content(content: str | bytes | BlobRef | None) -> str:
    match content:
        case None:
            return ""
        case BlobRef(sha256=sha256):
            return sha256
        case str():
            return ref_of(content.encode("utf-8", "surrogatepass")).sha256
        case _:
            return ref_of(content).sha256
