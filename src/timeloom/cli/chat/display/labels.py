"""Makes short labels for calls, results, plans and the ends of turns."""

import json
from contextlib import suppress
from typing import Final, cast

import msgspec

from timeloom.cli.chat.display.format import format_count, format_size
from timeloom.cli.sanitize import one_line, sanitize
from timeloom.core.blocks import (
    AnyBlock,
    ChannelText,
    CompactionEnded,
    EndReason,
    ResultDigest,
    ResultStatus,
    ToolError,
    TurnEnded,
)
from timeloom.core.payload import BlobRef, Text
from timeloom.core.plans.marks import marker
from timeloom.core.plans.snapshot import PlanSnapshot
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Entry

MAX_SHORT_BYTES: Final = 65_536
"""Largest parameters that are parsed for a label; larger ones are not worth the time."""

MAX_PLAN_LINES: Final = 20
"""Maximum number of lines printed for a new plan; `/plan` shows up to 50."""

MAX_CHANNEL_LINES: Final = 40
MAX_CHANNEL_COLUMNS: Final = 300

_VALUE_CHARS: Final = 40
_MIN_LINES: Final = 2
_RESULT_CHARS: Final = 160

END_REASON_LABELS: Final[dict[EndReason, str]] = {
    "completed": "done",
    "exited": "the agent ended the turn without an answer",
    "stopped": "stopped",
    "cancelled": "cancelled",
    "max_iterations": "no answer within the maximum number of rounds",
    "budget_exhausted": "the budget is used up",
    "refused": "refused",
    "no_progress": "the model repeated a call without progress",
    "protocol_failure": "the model's replies were invalid",
    "provider_error": "the model did not answer",
    "runtime_error": "an internal error of timeloom",
}

UNFORMATTED_NOTE: Final = "the model did not keep to the reply format; this is its plain text"
"""Printed below an answer that a reply without a decision became."""


def abbreviate_params(params: Text) -> str:
    """Return the parameters of a call as `name=value` pairs with shortened values."""
    if not isinstance(params, str) or len(params) > MAX_SHORT_BYTES:
        return "(long)"
    try:
        values = msgspec.json.decode(params)
    except (msgspec.MsgspecError, RecursionError):
        return one_line(params)
    if not isinstance(values, dict):
        return one_line(params)
    return " ".join(
        f"{one_line(name, 40)}={_abbreviate_value(value)}" for name, value in cast(dict[str, object], values).items()
    )


def format_params(params: str) -> str:
    """Return the parameters of a call as indented JSON; only unprintable characters are escaped."""
    try:
        # Parsed and encoded again, because an escape could hide the text that the tool will read.
        text = json.dumps(json.loads(params), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        text = params
    return _escape_unprintable(text)


def format_params_on_one_line(params: Text, most: int) -> str:
    """Return the first `most` characters of the parameters as JSON on one line; unprintable characters are escaped."""
    if not isinstance(params, str):
        return ""
    text = params
    if len(params) <= MAX_SHORT_BYTES:
        with suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(params), ensure_ascii=False, separators=(",", ":"))
    return _escape_unprintable(text[:most])


def summarize_results(results: list[AnyBlock]) -> str:
    """Summarize the results of a call on one line: files, sizes and status texts."""
    words: list[str] = []
    for block in results:
        match block:
            case ResultDigest(digest=digest) if not digest.error:
                name = digest.artifact_path.rpartition(":")[2]
                bytes_ = "" if digest.size_bytes is None else f" ({format_size(digest.size_bytes)})"
                if digest.artifact_path.startswith("fi:"):
                    words.append(name.partition(".")[2] + bytes_)
                elif bytes_:
                    words.append(bytes_.strip(" ()"))
            case ResultStatus(text=str() as text, error=None, mime="text/markdown"):
                words.append(text.strip().split("\n", 1)[0])
            case _:
                pass
    return one_line(", ".join(dict.fromkeys(words)), _RESULT_CHARS)


def find_error(block: AnyBlock) -> ToolError | None:
    """Return the error of a result block; None for a success or another block."""
    match block:
        case ResultDigest(digest=digest):
            return digest.error
        case ResultStatus(error=error):
            return error
        case _:
            return None


def format_plan(plan: PlanSnapshot, most: int = 50) -> list[str]:
    """Return the plan as a checklist of at most `most` lines around the current step."""
    steps = [f"{marker(status)} {one_line(step)}" for step, status in zip(plan.steps, plan.statuses, strict=True)]
    if len(steps) <= most:
        return steps
    done = [status in ("done", "failed") for status in plan.statuses]
    current = done.index(False) if False in done else len(done) - 1
    if most <= _MIN_LINES:
        return [f"{steps[current]} ({current + 1}/{len(steps)})"][: max(most, 1)]
    first = max(0, min(current - 1, len(steps) - (most - 1)))
    shown = steps[first : first + most - 1]
    return [*shown, f"  ({sum(done)} of {len(steps)} done)"]


def format_plan_changes(before: PlanSnapshot | None, plan: PlanSnapshot) -> list[str]:
    """Return the steps whose status changed; the whole checklist if the plan or its steps are new."""
    if before is None or before.plan_id != plan.plan_id or before.steps != plan.steps:
        return format_plan(plan, MAX_PLAN_LINES)
    steps = zip(before.statuses, plan.statuses, plan.steps, strict=True)
    return [f"{marker(now)} {one_line(step)}" for was, now, step in steps if was != now]


def describe_end(block: TurnEnded) -> str:
    """Describe why a turn ended without an answer."""
    detail = one_line(block.text, 300) if block.text else ""
    return f"{END_REASON_LABELS[block.reason]}: {detail}" if detail else END_REASON_LABELS[block.reason]


def describe_compaction(block: CompactionEnded) -> str:
    """Describe what a requested compaction summarized, or why it summarized nothing."""
    text = one_line(block.text, 300)
    if block.outcome == "skipped":
        return f"nothing to compact: {text}"
    turns, tokens = format_count(block.turns, "turn"), f"{block.covered_tokens:,} tokens"
    written = f"compacted {turns}: {tokens} became a summary of {block.summary_tokens:,} tokens"
    return f"{written}; {text}" if text else written


def format_source(row: SourceRow) -> str:
    """Return the number of a source with its title and its address."""
    title, url = one_line(row.title or row.artifact_path or row.url), sanitize(row.url)
    return f"[{row.sid}] {title}" + (f" {url}" if url and url != title else "")


def _escape_unprintable(text: str) -> str:
    """Return the text with JSON escapes for unprintable characters; line feeds stay."""
    if text.isprintable():
        return text
    return "".join(char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in text)


def _abbreviate_value(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    short = one_line(text, _VALUE_CHARS)
    return short if short and " " not in short else f'"{short}"' if isinstance(value, str) else short


def format_channel(entry: Entry, block: ChannelText) -> list[str]:
    """Return the text on a channel of the agent below the channel's name; of a long one, its beginning."""
    if isinstance(block.text, BlobRef):
        return [f"{block.channel}:", f"  ({block.text.size_bytes:,} bytes, `timeloom inspect {entry.path}` shows them)"]
    lines = block.text.splitlines()
    more = len(lines) - MAX_CHANNEL_LINES
    rest = [f"  … {more} more lines, `timeloom inspect {entry.path}` shows them"] if more > 0 else []
    shown = [f"  {sanitize(line)[:MAX_CHANNEL_COLUMNS]}" for line in lines[:MAX_CHANNEL_LINES]]
    return [f"{block.channel}:", *shown, *rest]
