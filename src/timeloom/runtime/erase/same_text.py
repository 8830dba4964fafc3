"""Finds entries of a conversation that contain the same text or the same payload as erased ones."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast

import msgspec

from timeloom.core.blocks import ContentBlock, ModelAnswered, ModelCalled, ResultContent
from timeloom.core.blocks.extract_payloads import find_blob_refs, restore_payloads
from timeloom.core.payload import BlobRef
from timeloom.core.render.foreign_text.fence import unfence
from timeloom.core.render.v2.fence import unfence_text
from timeloom.core.timeline import Entry
from timeloom.core.view.artifacts import ArtifactsView
from timeloom.ports.blobs import BlobError, Blobs

MIN_MATCH_CHARS: Final = 12
"""Minimum length of a searched text. Shorter ones, such as "yes", also occur in unrelated entries."""

MAX_DEPTH: Final = 32
"""Maximum nesting of JSON that is parsed; deeper text is searched as plain text."""


class TextMatches(msgspec.Struct, frozen=True):
    """The seqs of entries with the same text: copies made by the runtime, and independent blocks."""

    copies: frozenset[int] = frozenset()
    others: frozenset[int] = frozenset()


class SearchTexts:
    """The texts and payload references of some entries, to be searched in others."""

    def __init__(self, texts: Iterable[str], refs: Iterable[BlobRef]) -> None:
        normalized = (_normalize_space(text) for text in texts)
        self.texts = tuple(dict.fromkeys(text for text in normalized if len(text) >= MIN_MATCH_CHARS))
        self.refs = frozenset(refs)

    def occur_in(self, text: str) -> bool:
        """Return whether the text contains one of the texts completely, fenced or not."""
        if not self.texts:
            return False
        # A recorded text may quote a prompt of any edition.
        forms = {_normalize_space(form) for form in (text, unfence(text), unfence_text(text))}
        return any(words in form for form in forms for words in self.texts)


async def load_search_texts(blobs: Blobs, tenant: str, entries: Sequence[Entry]) -> SearchTexts:
    """Return the texts and payload references of these entries."""
    refs = [ref for entry in entries for ref in find_blob_refs(entry.block)]
    return SearchTexts(await load_entry_texts(blobs, tenant, entries), refs)


async def load_entry_texts(blobs: Blobs, tenant: str, entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the texts of the entries that have one."""
    texts = [getattr((await load_whole_entry(blobs, tenant, entry)).block, "text", None) for entry in entries]
    return tuple(text for text in texts if isinstance(text, str))


async def find_matches(
    blobs: Blobs, tenant: str, entries: Sequence[Entry], wanted: SearchTexts, artifacts: ArtifactsView
) -> TextMatches:
    """Return which of the entries contain the same text; it reads all payloads of the entries."""
    copies: set[int] = set()
    others: set[int] = set()
    for entry in entries:
        if not await _contains(blobs, tenant, entry, wanted):
            continue
        (copies if _is_copy(entry, artifacts) else others).add(entry.seq)
    return TextMatches(frozenset(copies), frozenset(others))


async def load_whole_entry(blobs: Blobs, tenant: str, entry: Entry) -> Entry:
    """Return the entry with its payloads in place; a missing payload is empty."""
    payloads: dict[BlobRef, bytes] = {}
    for ref in find_blob_refs(entry):
        try:
            payloads[ref] = await blobs.read_blob(tenant, ref)
        except BlobError:
            payloads[ref] = b""
    # Damaged bytes that are no valid text are replaced.
    return restore_payloads(entry, lambda ref: payloads[ref].decode("utf-8", "replace").encode())


async def _contains(blobs: Blobs, tenant: str, entry: Entry, wanted: SearchTexts) -> bool:
    if wanted.refs.intersection(find_blob_refs(entry)):
        return True
    if not wanted.texts:
        return False
    block = (await load_whole_entry(blobs, tenant, entry)).block
    value: object = msgspec.to_builtins(block, builtin_types=(bytes,))
    return any(wanted.occur_in(text) for text in _iter_texts(value, MAX_DEPTH))


def _is_copy(entry: Entry, artifacts: ArtifactsView) -> bool:
    match entry.block:
        case ModelCalled() | ModelAnswered():
            return True
        case ResultContent(tool_call_id=call):
            return artifacts.is_reading(entry.turn_id, call)
        case _:
            return False


def _iter_texts(value: object, depth: int) -> Iterator[str]:
    """Yield every text in a value, including texts inside JSON strings."""
    match value:
        case str():
            yield value
            if depth and value[:1] in ("{", "["):
                yield from _iter_json_texts(value, depth)
        case dict():
            for inner in cast("dict[str, object]", value).values() if depth else ():
                yield from _iter_texts(inner, depth - 1)
        case list() | tuple():
            for inner in cast("Sequence[object]", value) if depth else ():
                yield from _iter_texts(inner, depth - 1)
        case _:
            return


def _iter_json_texts(text: str, depth: int) -> Iterator[str]:
    try:
        inner: object = json.loads(text)
    except (ValueError, RecursionError):
        return
    if not isinstance(inner, str):
        yield from _iter_texts(inner, depth - 1)


def _normalize_space(text: str) -> str:
    return " ".join(text.split())


def is_content(entry: Entry) -> bool:
    """Return whether the entry contains a file's content."""
    return isinstance(entry.block, ContentBlock) and entry.path.startswith("fi:")
