"""Summarizes a block on one line."""

from typing import Final

from timeloom.cli.chat.display.format import format_count
from timeloom.cli.chat.display.labels import describe_compaction
from timeloom.cli.sanitize import one_line
from timeloom.core.blocks import (
    AnyBlock,
    ApprovalDecided,
    AttachmentMeta,
    CompactionEnded,
    CompactionRequested,
    ContentBlock,
    ConversationStarted,
    Digest,
    Gate,
    Hidden,
    ModelAnswered,
    ModelCalled,
    Pinned,
    PlanRecorded,
    Pruned,
    ResultDigest,
    RoundStarted,
    SourcesAdded,
    ToolCall,
    TurnEnded,
    TurnStarted,
)
from timeloom.core.payload import BlobRef
from timeloom.core.policy.compaction import KEPT_ROUNDS

SUMMARY_CHARS: Final = 160


def summarize_block(block: AnyBlock) -> str:
    """Return the content of the block on one sanitized line; a large payload is shown as its size."""
    text = _block_text(block)
    if isinstance(text, BlobRef):
        return f"({text.size_bytes:,} bytes)"
    return one_line(text, SUMMARY_CHARS)


def _block_text(block: AnyBlock) -> str | BlobRef:
    match block:
        case ToolCall(tool_id=tool_id, params=params):
            return f"{tool_id} {params if isinstance(params, str) else ''}"
        case ResultDigest(digest=digest) | AttachmentMeta(digest=digest):
            return _digest_text(digest)
        case ContentBlock(text=text, mime=mime):
            return mime if text is None else text
        case ModelCalled(model=model, attempt=attempt):
            return model if attempt == 1 else f"{model}, attempt {attempt}"
        case ModelAnswered():
            return _model_result_text(block)
        case PlanRecorded(snapshot=plan):
            return f"{plan.state}: {'; '.join(plan.steps)}"
        case SourcesAdded(rows=rows):
            return ", ".join(f"[{row.sid}] {row.title or row.url}" for row in rows[:8])
        case _:
            return _event_text(block)


def _event_text(block: AnyBlock) -> str | BlobRef:
    match block:
        case ConversationStarted(tenant=tenant, project=project, user=user):
            return f"{tenant}/{project}, {user}"
        case TurnStarted(n=n):
            return f"turn {n}"
        case RoundStarted(round=n):
            return f"round {n}"
        case TurnEnded(reason=reason, text=text):
            return f"{reason}: {text}" if text else reason
        case Hidden() | Pruned() | CompactionRequested() | CompactionEnded() | Pinned():
            return _forgetting_text(block)
        case Gate(policy=policy, verdict=verdict, text=text):
            return f"{verdict} by {policy}{_after_colon(text)}"
        case ApprovalDecided(approved=approved, by=by, text=text):
            return f"{'allowed' if approved else 'refused'} by {by}{_after_colon(text)}"
        case _:
            return getattr(block, "text", "")


def _after_colon(text: str) -> str:
    return f": {text}" if text else ""


def _forgetting_text(block: Hidden | Pruned | CompactionRequested | CompactionEnded | Pinned) -> str:
    match block:
        case Hidden(target=target, replacement=text):
            return f"{target}: {text}"
        case Pruned(cuts=cuts):
            return ", ".join(f"{cut.first_seq}-{cut.last_seq}" for cut in cuts[:20])
        case CompactionRequested(keep=keep, text=text):
            return f"keeps {format_count(keep or KEPT_ROUNDS, 'round')}{f': {text}' if text else ''}"
        case CompactionEnded():
            return describe_compaction(block)
        case Pinned(target=target, pinned=pinned, tokens=tokens, text=text):
            return f"{target}, {tokens} tokens" if pinned else f"unpinned {target}{f': {text}' if text else ''}"


def _model_result_text(block: ModelAnswered) -> str:
    if block.error:
        return f"{block.error}: {block.detail}"
    usage = block.usage
    sent = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return f"{block.stop_reason}, {sent} tokens in, {usage.cache_read_tokens} of them cached, {usage.output_tokens} out"


def _digest_text(digest: Digest) -> str:
    if digest.error:
        return f"{digest.error.code}: {digest.error.message}"
    size = "" if digest.size_bytes is None else f"{digest.size_bytes:,} bytes"
    return " ".join(word for word in (digest.artifact_path, digest.mime, size) if word)
