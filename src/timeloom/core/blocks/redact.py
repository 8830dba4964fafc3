"""Removes the content of erased blocks and keeps their types, ids, numbers and paths."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, assert_never

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    AttachmentMeta,
    ChannelText,
    Completion,
    ConversationStarted,
    Cut,
    Digest,
    Erased,
    Feedback,
    Hidden,
    ModelAnswered,
    ModelCalled,
    PlanRecorded,
    PlansCompacted,
    Pruned,
    RangeSummary,
    ResultContent,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    SourcesAdded,
    ToolCall,
    ToolError,
    TurnStarted,
    Unknown,
)
from timeloom.core.blocks.block import ERASED
from timeloom.core.blocks.caching import CacheForecast, CachePoint
from timeloom.core.paths import MAX_SELECTED, EntriesPath, TurnIndexPath
from timeloom.core.payload import Text
from timeloom.core.plans.snapshot import PlanSnapshot
from timeloom.core.sources import SourceRow

NO_HASH: Final = "erased"
"""Replaces the hash of an erased request: given the rest of the log, the hash of a short text reveals the text."""

_ERASED_PARAMS: Final = f'{{"erased":"{ERASED}"}}'
_PLAIN: Final = "text/plain"


def redact_block(block: AnyBlock) -> AnyBlock:
    """Return the block with its type, ids, numbers and path, and without its content."""
    match block:
        case ConversationStarted() | Erased() | RoundStarted():
            # These hold only the owner, the record of an erasure, or numbers.
            return block
        case TurnStarted():
            # A client may have chosen the schema of the answer; the rest are numbers and the channels of the agent.
            return replace(block, erased=True, output="") if block.output else block
        case Attachment() | AttachmentMeta() | ToolCall() | ResultDigest() | ResultStatus() | ResultContent():
            return _redact_artifact(block)
        case SourcesAdded() | RangeSummary() | PlanRecorded() | PlansCompacted() | Hidden() | Pruned():
            return _redact_memory(block)
        case ModelCalled():
            return redact_request(block, 0)
        case ModelAnswered():
            return replace(
                block,
                erased=True,
                text=_redact_text(block.text),
                repaired=_redact_text(block.repaired),
                tool_calls=_redact_text(block.tool_calls),
                detail="",
            )
        case Completion() | ChannelText():
            return _redact_answer(block)
        case Feedback():
            # Erased feedback equals withdrawn feedback: a replacement text would read as an opinion.
            return replace(block, erased=True, reaction=None, text="", confidence=None)
        case Unknown():
            return replace(block, erased=True, json=_redact_json(block))
        case _:
            return replace(block, erased=True, text=_redact_text(block.text))


def redact_rows(block: SourcesAdded, sids: frozenset[int]) -> SourcesAdded:
    """Return the block without the content of these sources."""
    return replace(block, erased=True, rows=tuple(_redact_row(row) if row.sid in sids else row for row in block.rows))


def redact_cuts(block: Pruned, seqs: Sequence[int]) -> Pruned:
    """Return the block without the texts of all cuts that cover one of these seqs, given in ascending order."""
    cuts = tuple(_redact_cut(cut) if _covers_any(cut, seqs) else cut for cut in block.cuts)
    return replace(block, erased=True, cuts=cuts)


def redact_request(block: ModelCalled, first_seq: int) -> ModelCalled:
    """Return the call without its texts and without hashes of prefixes that include entries from `first_seq` on."""
    cache = block.cache and _redact_cache(block.cache, first_seq)
    return replace(block, erased=True, request_sha256=NO_HASH, system="", tail="", tools="", cache=cache)


def format_entry_paths(first_seq: int, last_seq: int) -> str:
    """Return the paths of all entries in a range, comma-separated."""
    starts = range(first_seq, last_seq + 1, MAX_SELECTED)
    return ", ".join(str(EntriesPath(((at, min(at + MAX_SELECTED - 1, last_seq)),))) for at in starts)


def _redact_text(text: Text) -> str:
    return ERASED if text else ""


def _redact_answer(block: Completion | ChannelText) -> AnyBlock:
    if isinstance(block, Completion):
        return replace(block, erased=True, text=ERASED, suggested_followups=())
    # No widget can show the mark of an erasure.
    return replace(block, erased=True, text=ERASED, mime=_PLAIN, widget="")


def _redact_artifact(
    block: Attachment | AttachmentMeta | ToolCall | ResultDigest | ResultStatus | ResultContent,
) -> AnyBlock:
    match block:
        case Attachment() | ResultContent():
            # The MIME type becomes text, so that erased content is not sent as an image.
            digest = block.digest and _redact_digest(block.digest)
            bare = replace(block, data=None, hosting=None, shown=None, digest=digest)
            return replace(bare, erased=True, text=ERASED, mime=_PLAIN)
        case AttachmentMeta():
            return replace(block, erased=True, digest=_redact_digest(block.digest), summary=ERASED)
        case ToolCall():
            return replace(block, erased=True, params=_ERASED_PARAMS)
        case ResultDigest():
            return replace(block, erased=True, digest=_redact_digest(block.digest))
        case ResultStatus():
            error = _redact_error(block.error)
            return replace(block, erased=True, text=ERASED, mime=_PLAIN, error=error, shown=None)
        case _:
            assert_never(block)


def _redact_memory(
    block: SourcesAdded | RangeSummary | PlanRecorded | PlansCompacted | Hidden | Pruned,
) -> AnyBlock:
    match block:
        case SourcesAdded():
            return replace(block, erased=True, rows=tuple(map(_redact_row, block.rows)))
        case RangeSummary():
            return replace(block, erased=True, text=f"{ERASED} react.read: {_covered_paths(block)}")
        case PlanRecorded():
            return replace(block, erased=True, snapshot=_redact_plan(block.snapshot))
        case PlansCompacted():
            plans = tuple(replace(plan, snapshot=_redact_plan(plan.snapshot)) for plan in block.plans)
            return replace(block, erased=True, plans=plans)
        case Hidden():
            return replace(block, erased=True, replacement=ERASED)
        case Pruned():
            return replace(block, erased=True, cuts=tuple(map(_redact_cut, block.cuts)))
        case _:
            assert_never(block)


def _redact_digest(digest: Digest) -> Digest:
    return Digest(
        artifact_path=digest.artifact_path,
        physical_path=digest.physical_path,
        mime=_PLAIN,
        kind=digest.kind,
        visibility=digest.visibility,
        channel=digest.channel,
        tool_call_id=digest.tool_call_id,
        error=_redact_error(digest.error),
    )


def _redact_error(error: ToolError | None) -> ToolError | None:
    return error and ToolError(code=error.code, message=ERASED)


def _covers_any(cut: Cut, seqs: Sequence[int]) -> bool:
    at = bisect_left(seqs, cut.first_seq)
    return at < len(seqs) and seqs[at] <= cut.last_seq


def _redact_cut(cut: Cut) -> Cut:
    # The text of a cut names the paths of its entries; keep those, or the entries become unreachable.
    text = f"{ERASED} react.read: {format_entry_paths(cut.first_seq, cut.last_seq)}" if cut.text else ""
    return Cut(cut.first_seq, cut.last_seq, text)


def _covered_paths(block: RangeSummary) -> str:
    if block.last_seq:
        return format_entry_paths(max(1, block.first_seq), block.last_seq)
    return ", ".join(str(TurnIndexPath(turn)) for turn in block.covered_turn_ids)


def _redact_cache(cache: CacheForecast, first_seq: int) -> CacheForecast:
    def redact_point(point: CachePoint) -> CachePoint:
        return point if point.seq < first_seq else replace(point, prefix="")

    hit = cache.hit and redact_point(cache.hit)
    return replace(cache, points=tuple(map(redact_point, cache.points)), hit=hit)


def _redact_row(row: SourceRow) -> SourceRow:
    return SourceRow(sid=row.sid, source_type=row.source_type, title=ERASED)


def _redact_plan(plan: PlanSnapshot) -> PlanSnapshot:
    return replace(plan, steps=(ERASED,) * len(plan.steps))


def _redact_json(block: Unknown) -> str:
    kept = {"type": block.foreign_type, "path": block.foreign_path, "text": ERASED}
    return msgspec.json.encode({name: value for name, value in kept.items() if value}).decode()
