"""Cards: what stands for pruned turns and rounds, with the words that must stay and a row for all else.

A card is recorded when it is made and shown as it was recorded, so everything foreign in it is fenced here.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    AttachmentMeta,
    Completion,
    ContentBlock,
    ExternalEvent,
    Followup,
    ModelAnswered,
    ModelCalled,
    Note,
    Notes,
    PlanRecorded,
    PlansCompacted,
    RangeSummary,
    ReactCompletion,
    ResultContent,
    ResultDigest,
    ResultStatus,
    Steer,
    Thinking,
    ToolCall,
    ToolCode,
    TurnEnded,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.ids import CallId, TurnId
from timeloom.core.paths import EntriesPath, TurnIndexesPath
from timeloom.core.payload import BlobRef, Text
from timeloom.core.render.entries.block_text import entry_text
from timeloom.core.render.entries.entry_text import NO_PAYLOADS, Payloads
from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.render.foreign_text.json_shape import shape_of
from timeloom.core.timeline import Entry
from timeloom.core.view.turn_index import index_row

PARAMS_CHARS: Final = 160
"""How much of a call's parameters a row shows. Less does not tell two calls apart; the call itself is one read away."""

ROUND_CHARS: Final = 120
"""How much of a result a row of a round shows at most. There may be a hundred such rounds in sight: with 400 characters
each, they cost 8% more in recorded sessions."""

MAX_ROW_PATH_CHARS: Final = 1_200

_RANGE: Final = re.compile(r"\[PREVIEW\] lines (\[[0-9]+-[0-9]+\]/[0-9]+) of ")

_WORDS: Final = (
    UserPrompt,
    AttachmentMeta,
    Followup,
    Steer,
    ExternalEvent,
    Note,
    RangeSummary,
    WorkingSummary,
    Completion,
)
_SILENT: Final = (Thinking, Notes, ModelCalled, ModelAnswered)


class CardLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a pruned turn its card shows.

    Smaller makes the model read again what it still needs; larger saves less. What is cut names its path.
    """

    text_chars: int = 4_000
    """Of each message of the user, the assistant or the outside."""
    result_chars: int = 400
    """Of each result of a tool."""
    result_items: int = 50
    """Items of a list that are looked at to tell the shape of a result."""
    result_keys: int = 80
    """Keys of an object that the shape of a result names."""
    rows: int = 40
    """Of what cannot be shown in words."""


class Known(msgspec.Struct, frozen=True):
    """What entries do not say themselves: their stored texts, and which of them hold the last word on an open plan."""

    payloads: Payloads = NO_PAYLOADS
    open_plans: frozenset[int] = frozenset()


NOTHING_KNOWN: Final = Known()
DEFAULT_LIMITS: Final = CardLimits()


def turn_card(
    turn: TurnId, n: int, entries: Sequence[Entry], known: Known = NOTHING_KNOWN, limits: CardLimits = DEFAULT_LIMITS
) -> str:
    """What stands for a turn: its messages, notes and open plans, its summary or else rows, and where its index is."""
    since = f" ts={entries[0].ts}" if entries else ""
    return _card(f"[PRUNED TURN {n}] {turn}{since} all of it: {_read(_index(n))}", entries, known, limits)


def round_card(
    n: int, turn_n: int, entries: Sequence[Entry], known: Known = NOTHING_KNOWN, limits: CardLimits = DEFAULT_LIMITS
) -> str:
    """What stands for a round of a turn that is in sight: what was said in it, and rows."""
    short = msgspec.structs.replace(limits, result_chars=min(limits.result_chars, ROUND_CHARS))
    return _card(f"[PRUNED ROUND {n}] all of it: {_read(_index(turn_n))}", entries, known, short)


def shortened(entry: Entry, chars: int, payloads: Payloads = NO_PAYLOADS) -> str:
    """What a prompt shows of the entry, up to so many characters, and where the rest is read."""
    made = entry_text(entry, payloads=payloads)
    whole = made.text.removesuffix("\n\n")
    if len(whole) <= chars and made.data is None:
        return whole
    path = entry.path or str(EntriesPath.of([entry.seq]))
    kept = whole[:chars]
    left = f"{len(whole) - len(kept)} more characters" if made.data is None else f"attached {one_line(made.mime)}"
    return f"{kept.rstrip()}\n[READ] {left}: {_read(one_line(path, MAX_ROW_PATH_CHARS))}".lstrip("\n")


def rows_of(entries: Iterable[Entry], known: Known = NOTHING_KNOWN, limits: CardLimits = DEFAULT_LIMITS) -> list[str]:
    """A row `kind path tool call: hint` for everything that is neither in words nor of the runtime's own."""
    rows: dict[tuple[str, str], str] = {}
    calls: dict[CallId, ToolCall] = {}
    described: set[str] = set()
    for entry in entries:
        block = entry.block
        if isinstance(block, ToolCall):
            calls[block.tool_call_id] = block
        if isinstance(block, AttachmentMeta):
            described.add(entry.path)
        if isinstance(block, _WORDS + _SILENT) or (row := index_row(entry)) is None:
            continue
        if isinstance(block, Attachment) and row.path in described:
            continue
        call_id: CallId | None = getattr(block, "tool_call_id", None)
        call = calls.get(call_id) if call_id else None
        path, where = row.path, _lines_of(block)
        if call and call_id and path.startswith("tc:") and not isinstance(block, ToolCode):
            # The call and what it returned are one row, under the path of what came last.
            rows.pop((str(call.path(entry.turn_id)), ""), None)
        tool = one_line(call.tool_id) if call else "-"
        said = " ".join(word for word in (where, _hint(block, call, row.hint, known, limits)) if word)
        kind = "tool" if path.startswith("tc:") else row.kind
        line = f"- {kind} {one_line(path, MAX_ROW_PATH_CHARS)} {tool} {call_id or '-'}: {said}"
        rows.pop((path, where), None)
        rows[path, where] = line
    return list(rows.values())


def _card(head: str, entries: Sequence[Entry], known: Known, limits: CardLimits) -> str:
    words = [text for entry in entries if (text := _words(entry, known, limits))]
    summed_up = any(isinstance(entry.block, WorkingSummary) for entry in entries)
    # A summary stands for what was done; what was brought into sight for reading keeps its place all the same.
    told = [
        entry for entry in entries if not summed_up or isinstance(entry.block, ToolCall | ContentBlock | AttachmentMeta)
    ]
    rows = rows_of(told, known, limits)
    if summed_up:
        rows = [row for row in rows if _keeps_place(row)]
    more = [f"- and {len(rows) - limits.rows} more, in the index"] if len(rows) > limits.rows else []
    return "\n".join([head, *words, *rows[: limits.rows], *more])


def _words(entry: Entry, known: Known, limits: CardLimits) -> str:
    block = entry.block
    kept = isinstance(block, _WORDS) or (isinstance(block, PlanRecorded) and entry.seq in known.open_plans)
    ended = isinstance(block, TurnEnded) and block.reason != "completed"
    if kept or ended or isinstance(block, PlansCompacted | ReactCompletion):
        return shortened(entry, limits.text_chars, known.payloads)
    return ""


def _keeps_place(row: str) -> bool:
    path = row.split(" ", 3)[2]
    return path.startswith(("sk:", "ks:")) or ": lines [" in row or ".attachments/" in path


def _lines_of(block: AnyBlock) -> str:
    """The range of lines that a read showed, as its status gave it."""
    if isinstance(block, ResultContent) and block.shown and (found := _RANGE.match(block.shown.text)):
        return f"lines {found[1]}"
    return ""


def _hint(block: AnyBlock, call: ToolCall | None, hint: str, known: Known, limits: CardLimits) -> str:
    match block:
        case ToolCall(params=params):
            return _line(params, known, PARAMS_CHARS)
        case ResultContent(text=str() | BlobRef() as text, mime=mime) | ResultStatus(text=text, mime=mime):
            said = _result(text, mime, known, limits)
            of_call = call is not None and (isinstance(block, ResultStatus) or block.artifact_path.startswith("tc:"))
            return f"{_line(call.params, known, PARAMS_CHARS)} => {said}" if call and of_call else said
        case ResultDigest(digest=digest) if call and digest.artifact_path.startswith("tc:"):
            return f"{_line(call.params, known, PARAMS_CHARS)} => {one_line(hint)}"
        case _:
            return one_line(hint)


def _result(text: Text, mime: str, known: Known, limits: CardLimits) -> str:
    full = _text(text, known)
    if full is None or len(full) <= limits.result_chars or "json" not in mime:
        return _line(text, known, limits.result_chars)
    shape = shape_of(full, limits.result_items, limits.result_keys)
    return one_line(shape or full, limits.result_chars)


def _line(text: Text, known: Known, chars: int) -> str:
    full = _text(text, known)
    if full is None:
        return f"({text.size_bytes} bytes)" if isinstance(text, BlobRef) else ""
    return one_line(full, chars)


def _text(text: Text, known: Known) -> str | None:
    if isinstance(text, str):
        return text
    data = known.payloads.get(text)
    return None if data is None else data.decode("utf-8", "replace")


def _index(n: int) -> str:
    return str(TurnIndexesPath.of([n]))


def _read(path: str) -> str:
    return f'react.read(["{path}"])'
