"""Renders the cards that replace pruned turns and rounds: important text, and one row for everything else.

A card is recorded when it is made and later shown unchanged, so all foreign text in it is fenced here.
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
    Digest,
    ExternalEvent,
    Followup,
    ModelAnswered,
    ModelCalled,
    Note,
    Notes,
    Notice,
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
    ToolError,
    TurnEnded,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.ids import CallId, TurnId
from timeloom.core.paths import EntriesPath, TurnIndexesPath, TurnIndexPath, turn_alias
from timeloom.core.payload import BlobRef, Text
from timeloom.core.render.facts import EMPTY_CONTEXT, CardContext, CardLimits
from timeloom.core.render.foreign_text.fence import excerpt, one_line
from timeloom.core.render.foreign_text.json_shape import describe_json_shape
from timeloom.core.render.names import Names
from timeloom.core.render.v1.summary import turn_index_paths
from timeloom.core.render.v2.entries.block_text import entry_text
from timeloom.core.render.v2.entries.channel_text import read_call
from timeloom.core.render.v2.entries.shorten import shorten_text
from timeloom.core.render.v2.entries.status_text import alias_paths
from timeloom.core.timeline import Entry
from timeloom.core.view.turn_index import index_row

MIN_HINT_CHARS: Final = 48
"""Smallest limit of a row's hint, of which the call's parameters get the larger part. Less does not distinguish two
calls; the complete call is one read away."""

PARAMS_CHARS: Final = 160
"""Largest limit of a call's parameters in a row."""

ROUND_CHARS: Final = 120
"""Largest limit of a result in a row of a round. A hundred such rounds may be visible: with 400 characters each,
recorded sessions cost 8% more."""

HINT_SHARE: Final = 12
"""A hint shows one of this many characters of its call and result. With longer hints, a session of many small calls
pays more for its rows than pruning saves."""

MAX_ROW_PATH_CHARS: Final = 1_200

MAX_ALIASED_CHARS: Final = 4_000
"""Maximum length of parameters that are searched for paths; a hint shows only their beginning."""

_RANGE: Final = re.compile(r"\[(?:PREVIEW\] lines |READ\] )(\[[0-9]+-[0-9]+\]/[0-9]+)")

_TEXT_BLOCKS: Final = (
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
_OMITTED_BLOCKS: Final = (Thinking, Notes, ModelCalled, ModelAnswered)

DEFAULT_LIMITS: Final = CardLimits()


def turn_card(
    turn: TurnId,
    entries: Sequence[Entry],
    names: Names,
    context: CardContext = EMPTY_CONTEXT,
    limits: CardLimits = DEFAULT_LIMITS,
) -> str:
    """Return the card of a turn.

    It shows the turn's messages, notes and open plans, its working summary or else rows, and the path of its index.
    """
    since = f" {entries[0].ts[:10]} {entries[0].ts[11:16]}" if entries else ""
    head = f"[PRUNED {names.turn(turn)}]{since}, all of it: {read_call(names.path(str(TurnIndexPath(turn))))}"
    return _make_card(head, entries, names, context, limits)


def rounds_card(
    rounds: tuple[int, int],
    turn_n: int,
    entries: Sequence[Entry],
    names: Names,
    context: CardContext = EMPTY_CONTEXT,
    limits: CardLimits = DEFAULT_LIMITS,
) -> str:
    """Return the card of the rounds from the first to the second number in a visible turn: their messages and rows."""
    first, last = rounds
    numbers = f"round {first}" if first == last else f"rounds {first} to {last}"
    short = msgspec.structs.replace(limits, result_chars=min(limits.result_chars, ROUND_CHARS))
    head = f"[PRUNED] {numbers} of this turn, all of it: {read_call(index_path(turn_n, entries, names))}"
    return _make_card(head, entries, names, context, short)


def collapsed_head(turn_n: int, first_turn: int, outside: Sequence[int]) -> str:
    """Return the head of a card for everything from the first turn on; `outside` are entries of no turn."""
    turn = turn_alias(turn_n)
    lines = [f"[PRUNED {turn}] all of it: {read_call(f'ar:{turn}.react.turn.index')}"]
    if first_turn < turn_n:
        lines.append(f"[EARLIER TURNS] an index for each: {turn_index_paths(first_turn, turn_n - 1)}")
    if outside:
        lines.append(f"[OF NO TURN] {EntriesPath.from_numbers(outside)}")
    return "\n".join(lines)


def index_path(turn_n: int, entries: Sequence[Entry], names: Names) -> str:
    """Return the path of the index of the turn with these entries."""
    if entries:
        return names.path(str(TurnIndexPath(entries[0].turn_id)))
    return str(TurnIndexesPath.from_numbers([turn_n]))


def has_messages(entries: Sequence[Entry], names: Names, context: CardContext = EMPTY_CONTEXT) -> bool:
    """Whether a card of these entries shows more than rows."""
    return bool(_words(entries, names, context, DEFAULT_LIMITS))


def card_rows(
    entries: Iterable[Entry],
    names: Names,
    context: CardContext = EMPTY_CONTEXT,
    limits: CardLimits = DEFAULT_LIMITS,
) -> list[str]:
    """Return a row `[path] tool hint` for each entry that is neither text nor bookkeeping; a call has its alias."""
    return [row.text for row in _rows(entries, names, context, limits)]


class _CardRow(msgspec.Struct, frozen=True):
    """A row of a card; `name` is the alias of the call, or the path."""

    name: str
    path: str
    tool: str
    hint: str

    @property
    def text(self) -> str:
        """The row. It starts with a bracket, as every line of the runtime does."""
        return f"[{one_line(self.name, MAX_ROW_PATH_CHARS)}] {f'{self.tool} ' if self.tool else ''}{self.hint}".rstrip()

    @property
    def keeps_place(self) -> bool:
        """Whether the row stays beside a working summary: it names content that the model was given to read."""
        return self.path.startswith(("sk:", "ks:")) or self.hint.startswith("lines [") or ".attachments/" in self.path


def _rows(entries: Iterable[Entry], names: Names, context: CardContext, limits: CardLimits) -> list[_CardRow]:
    rows: dict[tuple[str, str], _CardRow] = {}
    calls: dict[CallId, ToolCall] = {}
    failed: dict[CallId, str] = {}
    described: set[str] = set()
    for entry in entries:
        block = entry.block
        if isinstance(block, ToolCall):
            block = calls[block.tool_call_id] = _with_aliases(block, names)
        if isinstance(block, AttachmentMeta):
            described.add(entry.path)
        if isinstance(block, _TEXT_BLOCKS + _OMITTED_BLOCKS) or (row := index_row(entry)) is None:
            continue
        if isinstance(block, Attachment) and row.path in described:
            continue
        if isinstance(block, Notice) and block.in_result:
            # The row of the result says that it failed.
            continue
        call_id: CallId | None = getattr(block, "tool_call_id", None)
        call = calls.get(call_id) if call_id else None
        path, where = row.path, _line_range(block)
        if call and path.startswith("tc:") and not isinstance(block, ToolCode):
            # The call and its result share one row, under the path of the later entry.
            rows.pop((str(call.path(entry.turn_id)), ""), None)
        hint = " ".join(word for word in (where, _hint(block, call, row.hint, context, limits)) if word)
        rows.pop((path, where), None)
        if call_id and (error := _error_of(block)):
            failed[call_id] = f" failed {one_line(error.code)}"
        tool = one_line(call.tool_id) + failed.get(call.tool_call_id, "") if call else ""
        rows[path, where] = _CardRow(_row_name(entry, path, names), path, tool, hint)
    return list(rows.values())


def _with_aliases(call: ToolCall, names: Names) -> ToolCall:
    """Return the call with aliases in its parameters, so that a hint is not filled by the id of a turn."""
    params = call.params
    if not isinstance(params, str) or len(params) > MAX_ALIASED_CHARS or "turn_" not in params:
        return call
    try:
        fields = msgspec.json.decode(params, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError):
        # A number that is out of range passes the check of a block.
        return call
    return msgspec.structs.replace(call, params=msgspec.json.encode(alias_paths(fields, names)).decode())


def _error_of(block: AnyBlock) -> ToolError | None:
    match block:
        case ResultStatus(error=error) | ResultDigest(digest=Digest(error=error)):
            return error
        case _:
            return None


def _row_name(entry: Entry, path: str, names: Names) -> str:
    """Return the alias of the call for its own parts, the place of the entry for code, and else the path."""
    block = entry.block
    call_id: CallId | None = getattr(block, "tool_call_id", None)
    if isinstance(block, ToolCode):
        return str(EntriesPath.from_numbers([entry.seq]))
    if call_id and path.startswith("tc:"):
        return names.call(entry.turn_id, call_id)
    return names.path(path)


def _make_card(head: str, entries: Sequence[Entry], names: Names, context: CardContext, limits: CardLimits) -> str:
    words = _words(entries, names, context, limits)
    summed_up = any(isinstance(entry.block, WorkingSummary) for entry in entries)
    # A working summary replaces the rows of actions, but not the rows of content that the model was given to read.
    listed = [
        entry for entry in entries if not summed_up or isinstance(entry.block, ToolCall | ContentBlock | AttachmentMeta)
    ]
    rows = [row.text for row in _rows(listed, names, context, limits) if not summed_up or row.keeps_place]
    more = [f"[MORE] {len(rows) - limits.rows} rows, in the index"] if len(rows) > limits.rows else []
    return "\n".join([head, *words, *rows[: limits.rows], *more])


def _words(entries: Sequence[Entry], names: Names, context: CardContext, limits: CardLimits) -> list[str]:
    return [text for entry in entries if (text := _entry_words(entry, names, context, limits))]


def _entry_words(entry: Entry, names: Names, context: CardContext, limits: CardLimits) -> str:
    block = entry.block
    kept = isinstance(block, _TEXT_BLOCKS) or (isinstance(block, PlanRecorded) and entry.seq in context.open_plans)
    ended = isinstance(block, TurnEnded) and block.reason != "completed"
    if kept or ended or isinstance(block, PlansCompacted | ReactCompletion):
        made = entry_text(entry, names, payloads=context.payloads)
        return shorten_text(made, entry, limits.text_chars, names, context.payloads)
    return ""


def _line_range(block: AnyBlock) -> str:
    """Return the range of lines that a read showed, as its status recorded it."""
    if isinstance(block, ResultContent) and block.shown and (found := _RANGE.match(block.shown.text)):
        return f"lines {found[1]}"
    return ""


def _hint(block: AnyBlock, call: ToolCall | None, hint: str, context: CardContext, limits: CardLimits) -> str:
    match block:
        case ToolCall(params=params):
            return _text_line(params, context, _params_chars([params], context))
        case ResultContent(text=str() | BlobRef() as text, mime=mime) | ResultStatus(text=text, mime=mime):
            of_call = call is not None and (isinstance(block, ResultStatus) or block.artifact_path.startswith("tc:"))
            if not call or not of_call:
                return _result_hint(text, mime, context, limits)
            texts = [call.params, text]
            asked = _text_line(call.params, context, _params_chars(texts, context))
            chars = min(limits.result_chars, _hint_chars(texts, context) - len(asked))
            said = _result_hint(text, mime, context, msgspec.structs.replace(limits, result_chars=chars))
            return f"{asked} => {said}"
        case ResultDigest(digest=digest) if call and digest.artifact_path.startswith("tc:"):
            return f"{_text_line(call.params, context, PARAMS_CHARS)} => {excerpt(hint)}"
        case _:
            return excerpt(hint)


def _hint_chars(texts: Sequence[Text], context: CardContext) -> int:
    """Return the characters of a hint at these texts, in proportion to their length."""
    return max(MIN_HINT_CHARS, sum(len(_load_text(text, context) or "") for text in texts) // HINT_SHARE)


def _params_chars(texts: Sequence[Text], context: CardContext) -> int:
    return min(PARAMS_CHARS, _hint_chars(texts, context) * 4 // 7)


def _result_hint(text: Text, mime: str, context: CardContext, limits: CardLimits) -> str:
    full = _load_text(text, context)
    if full is None or len(full) <= limits.result_chars or "json" not in mime:
        return _text_line(text, context, limits.result_chars)
    shape = describe_json_shape(full, limits.result_items, limits.result_keys)
    return excerpt(shape or full, limits.result_chars)


def _text_line(text: Text, context: CardContext, chars: int) -> str:
    full = _load_text(text, context)
    if full is None:
        return f"({text.size_bytes} bytes)" if isinstance(text, BlobRef) else ""
    return excerpt(full, chars)


def _load_text(text: Text, context: CardContext) -> str | None:
    if isinstance(text, str):
        return text
    data = context.payloads.get(text)
    return None if data is None else data.decode("utf-8", "replace")
