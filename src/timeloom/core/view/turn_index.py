"""Builds the index of a turn: one row for everything in the turn that can be read again."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    AttachmentMeta,
    ChannelText,
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
    PlanAcknowledged,
    PlanRecorded,
    RangeSummary,
    ResultContent,
    ResultDigest,
    ResultStatus,
    Shown,
    SourcesAdded,
    Steer,
    Thinking,
    ToolCall,
    ToolCode,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.ids import TurnId
from timeloom.core.paths import MAX_SELECTED, EntriesPath, TurnIndexPath, select_sources
from timeloom.core.payload import BlobRef, Text
from timeloom.core.timeline import Entry

RowKind = Literal["summary", "message", "event", "tool", "artifact", "source", "plan", "note", "model", "other"]

HINT_CHARS: Final = 120
"""Maximum length of a hint. Longer hints make the index of a busy turn too large to read at once."""

_KINDS: Final = MappingProxyType[type[AnyBlock], RowKind](
    {
        WorkingSummary: "summary",
        RangeSummary: "summary",
        UserPrompt: "message",
        Completion: "message",
        Followup: "event",
        Steer: "event",
        ExternalEvent: "event",
        ToolCall: "tool",
        ToolCode: "tool",
        ResultStatus: "tool",
        Notice: "tool",
        ResultDigest: "artifact",
        ResultContent: "artifact",
        ChannelText: "artifact",
        AttachmentMeta: "artifact",
        Attachment: "artifact",
        SourcesAdded: "source",
        PlanRecorded: "plan",
        PlanAcknowledged: "plan",
        Note: "note",
        Notes: "note",
        Thinking: "note",
        ModelCalled: "model",
        ModelAnswered: "model",
    }
)

_ASCII_SPACE: Final = re.compile(r"[ \t\n\r\x0b\x0c]+")
_OTHER_BREAK: Final = re.compile("[\x1c-\x1e\x85\u2028\u2029]")

_NO_TOOLS: Final = MappingProxyType[str, str]({})


class IndexRow(msgspec.Struct, frozen=True):
    """A row: the kind of the entry, its path, the tool that wrote it, and the beginning of its text."""

    kind: RowKind
    path: str
    hint: str
    tool_id: str = ""


class TurnIndex(msgspec.Struct, frozen=True):
    """The rows of a turn in order; `places` lists all entries, including those without a row."""

    turn_id: TurnId
    rows: tuple[IndexRow, ...]
    places: tuple[EntriesPath, ...]

    @property
    def path(self) -> str:
        """The path under which the index is read."""
        return str(TurnIndexPath(self.turn_id))


def turn_index(turn: TurnId, entries: Iterable[Entry]) -> TurnIndex:
    """Return the index of the turn with these entries.

    A path names its newest version; older versions are listed by their position.
    """
    rows: dict[str, IndexRow] = {}
    contents: dict[str, int] = {}
    tools: dict[str, str] = {}
    seqs: list[int] = []
    for entry in entries:
        seqs.append(entry.seq)
        if isinstance(entry.block, ToolCall):
            tools[entry.block.tool_call_id] = entry.block.tool_id
        if row := index_row(entry, tools):
            if isinstance(entry.block, ContentBlock):
                older = contents.get(row.path)
                if older and row.path.startswith("fi:"):
                    place = str(EntriesPath.from_numbers([older]))
                    rows[place] = IndexRow("artifact", place, f"an older version of {row.path}", rows[row.path].tool_id)
                contents[row.path] = entry.seq
            rows[row.path] = row
    return TurnIndex(turn, tuple(rows.values()), _places(seqs))


def index_row(entry: Entry, tools: Mapping[str, str] = _NO_TOOLS) -> IndexRow | None:
    """Return the row of an entry, or None if it has no path; `tools` maps call ids to tool ids."""
    block = entry.block
    path = _path(entry)
    if not path:
        return None
    tool_id = tools.get(getattr(block, "tool_call_id", None) or "", "")
    return IndexRow(_KINDS.get(type(block), "other"), path, hint(_block_words(block)), tool_id)


def _places(seqs: list[int]) -> tuple[EntriesPath, ...]:
    return tuple(EntriesPath.from_numbers(seqs[at : at + MAX_SELECTED]) for at in range(0, len(seqs), MAX_SELECTED))


def hint(text: Text) -> str:
    """Return the truncated beginning of the text on one line; for a stored text, its size."""
    if isinstance(text, BlobRef):
        return f"({text.size_bytes} bytes)"
    words = fold_line(text[: HINT_CHARS * 4])
    return words if len(words) <= HINT_CHARS else words[: HINT_CHARS - 1] + "…"


def fold_line(text: str) -> str:
    """Return the text on one line: runs of ASCII white space become a space, other line breaks their escapes.

    All other characters stay as they are, so that a text without ASCII line breaks can be copied from an excerpt.
    """
    return _OTHER_BREAK.sub(_escape_break, _ASCII_SPACE.sub(" ", text).strip(" "))


def _escape_break(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _path(entry: Entry) -> str:
    match entry.block:
        case ResultDigest(digest=digest):
            return digest.artifact_path
        case SourcesAdded(rows=rows):
            return str(select_sources(row.sid for row in rows))
        case _:
            return entry.path


def _block_words(block: AnyBlock) -> Text:
    match block:
        case ResultDigest(digest=digest):
            return _digest_words(digest)
        case AttachmentMeta(digest=digest, summary=summary):
            return summary or _digest_words(digest)
        case (
            ContentBlock(text=BlobRef() as text, shown=Shown(hint=str(words)))
            | ResultStatus(text=BlobRef() as text, shown=Shown(hint=str(words)))
        ):
            return f"{hint(text)} {words}".rstrip()
        case ContentBlock(text=text, mime=mime):
            return mime if text is None else text
        case ToolCall(params=params):
            return params
        case SourcesAdded(rows=rows):
            return ", ".join(row.title or row.url for row in rows[:8])
        case PlanRecorded(snapshot=snapshot):
            return f"{snapshot.state}: {'; '.join(snapshot.steps)}"
        case ModelCalled(model=model):
            return model
        case ModelAnswered(model=model, stop_reason=stop_reason):
            return f"{model} {stop_reason}"
        case _:
            return getattr(block, "text", block.type_name)


def _digest_words(digest: Digest) -> str:
    if digest.error:
        return f"{digest.error.code}: {digest.error.message}"
    size = "" if digest.size_bytes is None else f"{digest.size_bytes} bytes"
    return " ".join(word for word in (digest.kind or "", digest.mime, size) if word)
