"""Searches the messages of a conversation for words and returns each match with a snippet."""

import re
from typing import Final

import msgspec

from timeloom.core.ids import TurnId
from timeloom.core.timeline import Entry
from timeloom.ports.reader import ConversationInfo
from timeloom.ports.store import Store
from timeloom.runtime.read.export import with_payloads

SNIPPET_CHARS: Final = 160
"""Maximum characters of a snippet; the whole message is at its path."""

_BEFORE_CHARS: Final = 40
_WORD: Final = re.compile(r"\w+")
_SPACE: Final = re.compile(r"\s+")


class MessageHit(msgspec.Struct, frozen=True, kw_only=True):
    """A message that contains at least one of the words."""

    seq: int
    turn_id: TurnId
    type: str
    path: str
    ts: str
    snippet: str


async def find_messages(store: Store, info: ConversationInfo, words: str, limit: int) -> tuple[MessageHit, ...]:
    """Return the newest messages of the conversation with any of the words; the title is searched too."""
    found: list[Entry] = []
    for seq in await store.search_messages(info.id, words, limit):
        found += await store.load(info.id, after=seq - 1, limit=1)
    return tuple([await _to_hit(store, info.tenant, entry, words) for entry in found])


def make_snippet(text: str, words: str) -> str:
    """Return the text around the first match on one line."""
    line = _SPACE.sub(" ", text).strip()
    lower = line.lower()
    places = [lower.find(word) for word in _WORD.findall(words.lower())]
    start = max(0, min((place for place in places if place >= 0), default=0) - _BEFORE_CHARS)
    cut = line[start : start + SNIPPET_CHARS]
    return f"{'…' if start else ''}{cut}{'…' if start + SNIPPET_CHARS < len(line) else ''}"


async def _to_hit(store: Store, tenant: str, entry: Entry, words: str) -> MessageHit:
    block = await with_payloads(store, tenant, entry.block)
    text: object = getattr(block, "text", "")
    return MessageHit(
        seq=entry.seq,
        turn_id=entry.turn_id,
        type=block.type_name,
        path=entry.path,
        ts=entry.ts,
        snippet=make_snippet(text if isinstance(text, str) else "", words),
    )
