"""Quotes: which entries of a conversation hold the same words, or the same payload, as some others."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast

import msgspec

from timeloom.core.blocks import ContentBlock, ModelAnswered, ModelCalled, ResultContent
from timeloom.core.blocks.extract_payloads import put_back, references
from timeloom.core.payload import BlobRef
from timeloom.core.render.foreign_text.fence import unfence
from timeloom.core.timeline import Entry
from timeloom.core.view.artifacts import ArtifactsView
from timeloom.ports.blobs import BlobError, Blobs

QUOTED_CHARS: Final = 12
"""Shortest text that is looked for. Shorter ones, such as "yes", stand in what has nothing to do with them."""

MAX_DEPTH: Final = 32
"""Deepest JSON that is looked into; deeper text is looked at as it stands."""


class Quotes(msgspec.Struct, frozen=True):
    """Who holds the same: copies that the runtime made on its way, and blocks that say it in their own right."""

    copies: frozenset[int] = frozenset()
    others: frozenset[int] = frozenset()


class Words:
    """What some entries say, to be looked for elsewhere."""

    def __init__(self, texts: Iterable[str], refs: Iterable[BlobRef]) -> None:
        squeezed = (_squeezed(text) for text in texts)
        self.texts = tuple(dict.fromkeys(text for text in squeezed if len(text) >= QUOTED_CHARS))
        self.refs = frozenset(refs)

    def are_in(self, text: str) -> bool:
        """Whether the text holds one of them whole, fenced or not."""
        if not self.texts:
            return False
        plain, bare = _squeezed(text), _squeezed(unfence(text))
        return any(words in plain or words in bare for words in self.texts)


async def words_of(blobs: Blobs, tenant: str, entries: Sequence[Entry]) -> Words:
    """What these entries say."""
    refs = [ref for entry in entries for ref in references(entry.block)]
    return Words(await texts_of(blobs, tenant, entries), refs)


async def texts_of(blobs: Blobs, tenant: str, entries: Sequence[Entry]) -> tuple[str, ...]:
    """The texts of these entries, of those that have one."""
    texts = [getattr((await whole(blobs, tenant, entry)).block, "text", None) for entry in entries]
    return tuple(text for text in texts if isinstance(text, str))


async def find_quotes(
    blobs: Blobs, tenant: str, entries: Sequence[Entry], words: Words, artifacts: ArtifactsView
) -> Quotes:
    """Which of the entries hold these words; it reads all that the conversation holds."""
    copies: set[int] = set()
    others: set[int] = set()
    for entry in entries:
        if not await _holds(blobs, tenant, entry, words):
            continue
        (copies if _is_copy(entry, artifacts) else others).add(entry.seq)
    return Quotes(frozenset(copies), frozenset(others))


async def whole(blobs: Blobs, tenant: str, entry: Entry) -> Entry:
    """The entry with its payloads in place; one that is lost is empty."""
    payloads: dict[BlobRef, bytes] = {}
    for ref in references(entry):
        try:
            payloads[ref] = await blobs.read_blob(tenant, ref)
        except BlobError:
            payloads[ref] = b""
    # What is no text any more, by damage, says nothing.
    return put_back(entry, lambda ref: payloads[ref].decode("utf-8", "replace").encode())


async def _holds(blobs: Blobs, tenant: str, entry: Entry, words: Words) -> bool:
    if words.refs.intersection(references(entry)):
        return True
    if not words.texts:
        return False
    block = (await whole(blobs, tenant, entry)).block
    value: object = msgspec.to_builtins(block, builtin_types=(bytes,))
    return any(words.are_in(text) for text in _texts(value, MAX_DEPTH))


def _is_copy(entry: Entry, artifacts: ArtifactsView) -> bool:
    match entry.block:
        case ModelCalled() | ModelAnswered():
            return True
        case ResultContent(tool_call_id=call):
            return artifacts.is_reading(entry.turn_id, call)
        case _:
            return False


def _texts(value: object, depth: int) -> Iterator[str]:
    """Every text in a value, also inside of JSON that is kept as text."""
    match value:
        case str():
            yield value
            if depth and value[:1] in ("{", "["):
                yield from _texts_in_json(value, depth)
        case dict():
            for inner in cast("dict[str, object]", value).values() if depth else ():
                yield from _texts(inner, depth - 1)
        case list() | tuple():
            for inner in cast("Sequence[object]", value) if depth else ():
                yield from _texts(inner, depth - 1)
        case _:
            return


def _texts_in_json(text: str, depth: int) -> Iterator[str]:
    try:
        inner: object = json.loads(text)
    except (ValueError, RecursionError):
        return
    if not isinstance(inner, str):
        yield from _texts(inner, depth - 1)


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def is_content(entry: Entry) -> bool:
    """Whether the entry holds a file's content."""
    return isinstance(entry.block, ContentBlock) and entry.path.startswith("fi:")
