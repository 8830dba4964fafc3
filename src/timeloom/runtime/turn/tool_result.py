"""Converts the outcome of a tool call into blocks, in the same order for all calls.

The order is: notices, sources, results, then blocks that only this tool may write. The results are the status if there
is one, metadata and content of each artifact, and the summary. How each text is shown is decided here, once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import (
    AnyBlock,
    CompactionRequested,
    Digest,
    Feedback,
    Hidden,
    Hosting,
    Note,
    Notice,
    Pinned,
    PlanAcknowledged,
    PlanRecorded,
    ResultContent,
    ResultDigest,
    ResultStatus,
    Shown,
    SourcesAdded,
    ToolError,
)
from timeloom.core.blocks.digest import is_outcome_unknown
from timeloom.core.codes import CODES
from timeloom.core.ids import CallId, MessageId, TurnId
from timeloom.core.paths import MAX_SELECTED, FileForm, LogicalPath, PathError, to_physical
from timeloom.core.payload import BlobRef, Data, Text, size_of
from timeloom.core.render.editions import renderer_for
from timeloom.core.render.v1.entries.previews import PDF, add_hint
from timeloom.core.render.v1.summary import FOCUS_CHARS
from timeloom.core.stream.surrogates import replace_lone_surrogates
from timeloom.core.view.aliases import parse_in
from timeloom.core.view.calls import OUTCOME_UNKNOWN
from timeloom.core.view.views import Views
from timeloom.ports.tool import Artifact, Outcome, ToolSpec
from timeloom.tools.react.compact import MAX_KEPT_ROUNDS

Show = Callable[[str, str, str], Shown]
"""Decides how a text is shown; the arguments are text, MIME type and path."""

TOOL_BLOCKS: Final = (Note, PlanRecorded, PlanAcknowledged, Hidden, Feedback, CompactionRequested, Pinned)
"""The blocks that a tool may write besides its results; only the runtime writes all others."""

MAX_ARTIFACTS: Final = 500
"""Maximum artifacts of one call. Smaller refuses a checkout of a source tree; larger lets one call flood the
timeline."""

MAX_DATA_BYTES: Final = 32 * 1024 * 1024
"""Largest image or PDF that is kept on the timeline; a larger one stays a file."""

MAX_CALL_BYTES: Final = 64 * 1024 * 1024
"""Maximum bytes that one call adds to the timeline, so that no call can fill the store."""

TRUNCATED: Final = "...[truncated]"
"""Appended to a text that was cut."""

UNKNOWN_TEXT: Final = (
    "It is unknown whether this call of {0} had its effect. Do not call {0} again to find out. Check with another "
    "tool, or tell the user. A repeated call needs a person's approval."
)
"""The text of the notice about an irreversible call that may have had its effect; `{0}` is the tool."""

_MESSAGE_CHARS: Final = 2_000
_WORD_CHARS: Final = 200
_SHOWN_CHARS: Final = 100_000
_MAX_NOTICES: Final = 50
_MAX_DETAILS: Final = 20
_INT_END: Final = 2**63


class CallRef(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies a call: its tool, turn and call id."""

    spec: ToolSpec
    turn_id: TurnId
    tool_call_id: CallId
    locate: Callable[[FileForm], Hosting] | None = None
    """Returns where a file that the user can download is hosted; None if files are not hosted."""


def build_result_blocks(
    outcome: Outcome, call_ref: CallRef, views: Views, show: Show, texts: Mapping[BlobRef, str] | None = None
) -> tuple[AnyBlock, ...]:
    """Return the blocks of the outcome; they always close the call.

    `texts` contains the stored texts of the outcome, which are needed to decide how they are shown.
    """
    builder = _ResultBuilder(call_ref, views, show, texts or {})
    builder.add_notices(outcome)
    sources = builder.source_blocks(outcome)
    own = builder.own_blocks(outcome)
    status = builder.status_blocks(outcome)
    artifacts = [block for artifact in outcome.artifacts[:MAX_ARTIFACTS] for block in builder.artifact_blocks(artifact)]
    if len(outcome.artifacts) > MAX_ARTIFACTS:
        builder.add_too_large_notice(f"{len(outcome.artifacts)} artifacts were left, and {MAX_ARTIFACTS} were kept")
    if builder.has_error_in_metadata(outcome, artifacts):
        status = []
    results = [*status, *artifacts, *builder.summary_blocks(outcome)]
    if not any(isinstance(block, ResultStatus | ResultDigest) for block in results):
        results.insert(0, builder.empty_status())
    return (*builder.notices.values(), *sources, *results, *own)


class _ResultBuilder:
    """Builds the blocks of one outcome and collects its notices."""

    def __init__(self, call_ref: CallRef, views: Views, show: Show, texts: Mapping[BlobRef, str]) -> None:
        self._call_ref = call_ref
        self._views = views
        self._show = show
        self._texts = texts
        self._bytes = 0
        self.notices: dict[tuple[str, str], Notice] = {}

    def add_notices(self, outcome: Outcome) -> None:
        """Add the tool's notices, and notices for its errors unless its report contains them."""
        if is_outcome_unknown(outcome.error) and self._call_ref.spec.effect == "irreversible":
            self._add_notice(OUTCOME_UNKNOWN, UNKNOWN_TEXT.format(self._call_ref.spec.tool_id))
        for notice in outcome.notices:
            self._add_notice(notice.code, notice.text)
        if outcome.error:
            self._add_error_notice(outcome.error)
        for artifact in outcome.artifacts[:MAX_ARTIFACTS]:
            already_noticed = artifact.error is None or artifact.error == outcome.error
            if artifact.error and not already_noticed and not self._call_ref.spec.reports:
                self._add_notice("tool_result_error", f"{artifact.path[:_WORD_CHARS]}: {artifact.error.message}")

    def add_too_large_notice(self, what: str) -> None:
        """Add a notice that something was left out, unless the tool writes its own report."""
        if not self._call_ref.spec.reports:
            self._add_notice("tool_result_too_large", what)

    def source_blocks(self, outcome: Outcome) -> list[SourcesAdded]:
        """Return the block of new source rows, limited to the number that one selection can name."""
        if not outcome.sources:
            return []
        if len(outcome.sources) > MAX_SELECTED:
            self.add_too_large_notice(f"{len(outcome.sources)} sources were given, and {MAX_SELECTED} were kept")
        rows = outcome.sources[:MAX_SELECTED]
        kept = tuple(replace(row, content=self._limit_text(row.content, f"source {row.sid}") or "") for row in rows)
        return [SourcesAdded(rows=kept, tool_call_id=self._call_ref.tool_call_id)]

    def own_blocks(self, outcome: Outcome) -> list[AnyBlock]:
        """Return the additional blocks that the tool is allowed to write."""
        kept: list[AnyBlock] = []
        for block in outcome.blocks:
            if not isinstance(block, TOOL_BLOCKS) or not _is_storable(block):
                self._add_notice(
                    "tool_result_error", f"the tool gave a {block.type_name}, which it cannot; it was left out"
                )
            elif isinstance(block, Note):
                kept.append(replace(block, tool_call_id=self._call_ref.tool_call_id))
            elif isinstance(block, Feedback):
                kept.append(self._as_machine_feedback(block))
            elif isinstance(block, CompactionRequested | Pinned):
                kept.append(self._as_tool_request(block))
            else:
                kept.append(block)
        return kept

    def status_blocks(self, outcome: Outcome) -> list[ResultStatus]:
        """Return the status or report; an error without one gets a status from its message."""
        if outcome.status is None and outcome.error is None:
            return []
        error = _clean_error(outcome.error) if outcome.error else None
        mime = _to_short_line(outcome.status_mime) or "text/plain"
        text = outcome.status
        if text is None and error:
            text, mime = _error_text(error, reports=self._call_ref.spec.reports)
        return [self._status_block(text or "", mime, error)]

    def has_error_in_metadata(self, outcome: Outcome, blocks: Sequence[AnyBlock]) -> bool:
        """Return whether an artifact's metadata already contains the call's error, so no status is needed."""
        if outcome.error is None or outcome.status is not None or self._call_ref.spec.reports:
            return False
        error = _clean_error(outcome.error)
        return any(isinstance(block, ResultDigest) and block.digest.error == error for block in blocks)

    def summary_blocks(self, outcome: Outcome) -> list[ResultStatus]:
        """Return the tool's summary after its results, if it has one."""
        return [] if outcome.summary is None else [self._status_block(outcome.summary, "application/json", None)]

    def empty_status(self) -> ResultStatus:
        """Return the status of a call without any result."""
        return self._status_block('{"ok":true}', "application/json", None)

    def artifact_blocks(self, artifact: Artifact) -> Iterator[AnyBlock]:
        """Yield the metadata of the artifact if it has any, then its content if there is any to show."""
        path = self._parse_path(artifact)
        if path is None:
            return
        mime = _to_short_line(artifact.mime) or "application/octet-stream"
        text = self._limit_text(artifact.text, str(path)) if artifact.text is not None else None
        data = self._limit_data(artifact.data, mime, str(path)) if text is None else None
        shown = _clean_shown(artifact.shown) or self._decide_shown(text, data, mime, path)
        content = self._texts.get(text) if isinstance(text, BlobRef) else text
        shown = shown if shown is None or content is None else add_hint(shown, content, mime)
        digest = self._build_digest(artifact, path, mime, shown.tokens if shown and text is not None else None)
        if not artifact.content_only:
            yield ResultDigest(tool_call_id=self._call_ref.tool_call_id, digest=digest)
        failed = artifact.error is not None and text is None and data is None
        if not artifact.meta_only and not failed:
            yield ResultContent(
                tool_call_id=self._call_ref.tool_call_id,
                artifact_path=str(path),
                mime=mime,
                text=text,
                data=data,
                hosting=_clean_hosting(artifact.hosting) or self._locate(path, digest),
                digest=None if artifact.content_only else digest,
                shown=shown,
            )

    def _locate(self, path: LogicalPath, digest: Digest) -> Hosting | None:
        """Return where the file is hosted, unless the call shows an earlier version, or users cannot download it."""
        locate, key = self._call_ref.locate, f"{self._call_ref.turn_id}.{self._call_ref.tool_call_id}"
        is_shown_only = key in self._views.artifacts.reading_calls
        is_hosted = digest.visibility == "external" and digest.error is None and digest.size_bytes != 0
        return locate(path) if locate and is_hosted and not is_shown_only and isinstance(path, FileForm) else None

    def _as_machine_feedback(self, block: Feedback) -> Feedback:
        """Return the feedback with a machine as its origin, because no tool may speak for a person."""
        author = self._call_ref.spec.tool_id if block.author == "user" else _to_short_line(block.author)
        return replace(block, origin="machine", text=_truncate(block.text), author=author)

    def _as_tool_request(self, block: CompactionRequested | Pinned) -> CompactionRequested | Pinned:
        """Return the request of a compaction or pin within the bounds of a person's, with the tool as its author."""
        author = self._call_ref.spec.tool_id if block.author == "user" else _to_short_line(block.author)
        if isinstance(block, Pinned):
            return replace(block, text=_truncate(block.text), author=author)
        return replace(
            block,
            # The id of another request would hide that request.
            message_id=MessageId(self._call_ref.tool_call_id),
            text=replace_lone_surrogates(block.text[:FOCUS_CHARS]),
            keep=min(block.keep, MAX_KEPT_ROUNDS),
            author=author,
        )

    def _add_notice(self, code: str, text: str, *, in_result: bool = False) -> None:
        code, text = (
            _to_short_line(code) or "tool_call_error",
            _truncate(text) or CODES.get(code, "no reason was given"),
        )
        if len(self.notices) < _MAX_NOTICES:
            call_id = self._call_ref.tool_call_id
            self.notices[code, text] = Notice(code=code, text=text, tool_call_id=call_id, in_result=in_result)

    def _add_error_notice(self, error: ToolError) -> None:
        already_noticed = any(code == error.code for code, _ in self.notices)
        reported = self._call_ref.spec.reports and not error.code.startswith("protocol_violation.")
        if already_noticed or reported:
            return
        # Prompts of edition 1 show errors in both places.
        in_result = self._views.turns.edition > 1
        if error.code in CODES:
            self._add_notice(error.code, error.message, in_result=in_result)
        else:
            self._add_notice("tool_call_error", f"{error.code}: {error.message}", in_result=in_result)

    def _status_block(self, text: str, mime: str, error: ToolError | None) -> ResultStatus:
        call_id = self._call_ref.tool_call_id
        limited = self._limit_text(text, "the status") or ""
        shown = self._show(str(limited), mime, f"tc:{self._call_ref.turn_id}.{call_id}.result")
        shown = add_hint(shown, str(limited), mime)
        return ResultStatus(tool_call_id=call_id, text=limited, mime=mime, error=error, shown=shown)

    def _parse_path(self, artifact: Artifact) -> LogicalPath | None:
        try:
            return parse_in(artifact.path, self._views)
        except PathError as error:
            self._add_notice("tool_result_error", f"the tool left something at no logical path: {error}")
            return None

    def _limit_text(self, text: Text, what: str) -> Text | None:
        """Return the text within the tool's limit; None if the call exceeds its total. Stored texts pass unchanged."""
        if isinstance(text, BlobRef):
            return text
        text, limit = replace_lone_surrogates(text), self._call_ref.spec.max_text_bytes
        # A character has at most four bytes, so a short text need not be encoded to be measured.
        encoded = text.encode() if len(text) * 4 > limit else b""
        if len(encoded) > limit:
            text = encoded[:limit].decode("utf-8", "ignore") + TRUNCATED
            self.add_too_large_notice(f"{what} has {len(encoded)} bytes, of which {limit} were kept")
        return text if self._count_bytes(size_of(text), what) else None

    def _limit_data(self, data: Data | None, mime: str, what: str) -> Data | None:
        if data is None or not (_bare_mime(mime) == PDF or _bare_mime(mime).startswith("image/")):
            return None
        if isinstance(data, BlobRef):
            return data
        if len(data) > MAX_DATA_BYTES:
            self.add_too_large_notice(f"{what} has {len(data)} bytes; up to {MAX_DATA_BYTES} are kept")
            return None
        return data if self._count_bytes(len(data), what) else None

    def _count_bytes(self, size: int, what: str) -> bool:
        if self._bytes + size > MAX_CALL_BYTES:
            self.add_too_large_notice(f"{what} was left out: one call leaves at most {MAX_CALL_BYTES} bytes")
            return False
        self._bytes += size
        return True

    def _decide_shown(self, text: Text | None, data: Data | None, mime: str, path: LogicalPath) -> Shown | None:
        if data is not None:
            renderer = renderer_for(self._views.turns.edition)
            return renderer.data_preview(_bare_mime(mime), size_of(data), str(path), self._views)
        if text is None:
            return None
        content = self._texts.get(text) if isinstance(text, BlobRef) else text
        if content is None:
            return Shown("stub", text=f"{mime}, {size_of(text)} bytes; read parts of it with react.read({path})")
        return self._show(content, mime, str(path))

    def _build_digest(self, artifact: Artifact, path: LogicalPath, mime: str, tokens: int | None) -> Digest:
        payload = artifact.text if artifact.text is not None else artifact.data
        size = artifact.size_bytes if artifact.size_bytes is not None else None if payload is None else size_of(payload)
        return Digest(
            artifact_path=str(path),
            # Computed here: the tool's value may be a path of this machine.
            physical_path=str(to_physical(path)) if isinstance(path, FileForm) else "",
            mime=mime,
            kind=artifact.kind,
            visibility=artifact.visibility,
            channel=_to_short_line(artifact.channel),
            tool_call_id=self._call_ref.tool_call_id,
            sources_used=artifact.sources_used,
            tokens=tokens,
            size_bytes=size,
            edited=self._has_earlier_version(str(path)),
            write_warning=_truncate(artifact.write_warning),
            error=_clean_error(artifact.error) if artifact.error else None,
        )

    def _has_earlier_version(self, path: str) -> bool:
        """Return whether an earlier version exists; for a read call, earlier than the version it shows."""
        known = self._views.artifacts.artifacts.get(path)
        if known is None:
            return False
        key = f"{self._call_ref.turn_id}.{self._call_ref.tool_call_id}"
        if key in known.by_call:
            return known.by_call[key] > 0
        return key not in self._views.artifacts.reading_calls or known.is_edited


def _bare_mime(mime: str) -> str:
    return mime.partition(";")[0].strip().lower()


def _error_text(error: ToolError, *, reports: bool) -> tuple[str, str]:
    """Return the status text of a failed call and its MIME type."""
    if reports:
        return f"Runtime error: {error.code} — {error.message}", "text/markdown"
    return msgspec.json.encode({"error": error}).decode(), "application/json"


def _is_storable(block: AnyBlock) -> bool:
    try:
        msgspec.json.encode(block)
    except (ValueError, TypeError, OverflowError):
        return False
    return True


def _clean_error(error: ToolError) -> ToolError:
    details = {_to_short_line(name): _detail(value) for name, value in list(error.details.items())[:_MAX_DETAILS]}
    code, message = _to_short_line(error.code) or "tool_call_error", _truncate(error.message)
    return ToolError(code=code, message=message, where=_to_short_line(error.where), details=details)


def _detail(value: str | int | float | bool | None) -> str | int | float | bool | None:
    if isinstance(value, str):
        return _to_short_line(value)
    return value if value is None or -_INT_END <= value < _INT_END else _to_short_line(str(value))


def _clean_shown(shown: Shown | None) -> Shown | None:
    """Return the tool's own choice of how a text is shown, cut to the length of a preview."""
    return shown and replace(shown, text=replace_lone_surrogates(shown.text[:_SHOWN_CHARS]))


def _clean_hosting(hosting: Hosting | None) -> Hosting | None:
    return hosting and Hosting(
        replace_lone_surrogates(hosting.hosted_uri),
        replace_lone_surrogates(hosting.rn),
        replace_lone_surrogates(hosting.key),
    )


def _to_short_line(text: str) -> str:
    """Return the text as one line within the length limit of a block's field."""
    return " ".join(replace_lone_surrogates(text[:_WORD_CHARS]).split())


def _truncate(text: str) -> str:
    text = replace_lone_surrogates(text[: _MESSAGE_CHARS + 1]).strip()
    return text if len(text) <= _MESSAGE_CHARS else text[: _MESSAGE_CHARS - 1] + "…"
