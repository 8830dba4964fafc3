"""Exports a conversation as `conv.timeline.v1` and its sources as `conv:sources_pool`, piece by piece."""

from typing import Final, cast

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import Completion, RangeSummary, ResultDigest, ToolCall, WorkingSummary
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.paths import PathError
from timeloom.core.sources import SourceRow, row_to_json, to_compact_row
from timeloom.core.timeline import Entry
from timeloom.core.view.aliases import rewrite_in
from timeloom.core.view.views import Views
from timeloom.wire.block_json import encode_block

TIMELINE_TYPE: Final = "conv.timeline.v1"
SOURCES_TYPE: Final = "conv:sources_pool"

CONTENT_CHARS: Final = 200
"""How many characters of a written file's content remain in its call; the file contains the rest."""

_JSON: Final = msgspec.json.Decoder(dict[str, object])


def timeline_head(conversation: ConversationId, views: Views) -> bytes:
    """Return the start of the object, up to the first block."""
    return msgspec.json.encode(timeline_fields(conversation, views))[:-1] + b',"blocks":['


def timeline_fields(conversation: ConversationId, views: Views) -> dict[str, object]:
    """Return the fields of the object before its blocks."""
    conversation_view = views.conversation
    fields: dict[str, object] = {"type": TIMELINE_TYPE, "conversation_id": conversation}
    if conversation_view.header:
        fields |= {name: getattr(conversation_view.header, name) for name in ("tenant", "project", "user", "bundle")}
    return fields | {
        "title": conversation_view.title,
        "started_ts": conversation_view.started_ts,
        "last_ts": conversation_view.last_ts,
        "tail": views.tail,
    }


def timeline_block(entry: Entry, views: Views) -> bytes:
    """Return one block in its current state: hidden, replaced, edited and numbered as the whole log defines."""
    data = encode_block(_shorten_content(_mark_edited(entry, views), views))
    try:
        block = _JSON.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        # A foreign object that msgspec cannot decode; it is exported unchanged.
        return data
    changes = _hidden_meta(entry.seq, views)
    if changes:
        block["meta"] = cast(dict[str, object], block.get("meta") or {}) | changes
    if path := _numbered_path(entry, views):
        block["path"] = path
    return msgspec.json.encode(block)


def timeline_foot(views: Views) -> bytes:
    """Return the end of the timeline object, which contains the sources pool with compact rows."""
    rows = [row_to_json(to_compact_row(row)) for row in views.sources.pool.list_rows()]
    return b'],"sources_pool":' + msgspec.json.encode(rows) + b"}"


def chain_head(foot: bytes) -> bytes:
    """Return the end of the timeline object up to the first link of its hash chain."""
    return foot[:-1] + b',"chain":{"links":['


def chain_foot(head: bytes) -> bytes:
    """Return the end of the chain and of the timeline object; `head` is the hash of the last entry."""
    return b'],"head":' + msgspec.json.encode(head.hex()) + b"}}"


def sources_head(conversation: ConversationId) -> bytes:
    """Return the start of the pool's object, up to its first row."""
    return msgspec.json.encode({"type": SOURCES_TYPE, "conversation_id": conversation})[:-1] + b',"rows":['


def sources_row(row: SourceRow) -> bytes:
    """Return one complete row."""
    return msgspec.json.encode(row_to_json(row))


def sources_foot() -> bytes:
    """Return the end of the pool's object."""
    return b"]}"


def _mark_edited(entry: Entry, views: Views) -> Entry:
    """Return the entry with `edited` set, if it is metadata of a later version of an artifact."""
    block = entry.block
    if not isinstance(block, ResultDigest) or entry.original or entry.seq not in views.artifacts.edit_seqs:
        return entry
    return replace(entry, block=replace(block, digest=replace(block.digest, edited=True)))


def _shorten_content(entry: Entry, views: Views) -> Entry:
    """Return the call with its `content` truncated, if the timeline contains the file that it wrote."""
    block = entry.block
    if not isinstance(block, ToolCall) or not isinstance(block.params, str) or len(block.params) <= CONTENT_CHARS:
        return entry
    params = _JSON.decode(block.params)
    content, path = params.get("content"), params.get("path")
    if not isinstance(content, str) or len(content) <= CONTENT_CHARS or not isinstance(path, str):
        return entry
    written = _written_path(path, entry.turn_id, views)
    if written not in views.artifacts.artifacts:
        return entry
    params["content"] = f"{content[:CONTENT_CHARS]}... [see {written}]"
    return replace(entry, block=replace(block, params=msgspec.json.encode(params).decode()), original="")


def _written_path(path: str, turn: TurnId, views: Views) -> str:
    try:
        return str(rewrite_in(path, turn, views).path)
    except PathError:
        return ""


def _hidden_meta(seq: int, views: Views) -> dict[str, object]:
    if seq not in views.visible.gone:
        return {}
    stub = views.visible.shown.get(seq)
    meta: dict[str, object] = {"hidden": True}
    if stub and stub.text:
        meta["replacement_text"] = stub.text
    return meta


def _numbered_path(entry: Entry, views: Views) -> str:
    """Return the numbered path of an answer or summary that is no longer the newest of its turn."""
    if not isinstance(entry.block, Completion | WorkingSummary | RangeSummary) or entry.original:
        return ""
    return "" if views.paths.aliases.get(entry.alias) == entry.seq else entry.path
