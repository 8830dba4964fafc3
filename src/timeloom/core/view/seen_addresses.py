"""The view of the web addresses that the user typed or a source contains; an address that is none of them is new.

What the model has read could make it write text of the conversation into an address. So gates look at new addresses.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final, cast

import msgspec

from timeloom.core.blocks import ExternalEvent, Followup, SourcesAdded, Steer, UserPrompt
from timeloom.core.payload import Text
from timeloom.core.sources import SourceRow, split_url
from timeloom.core.sources.rows import parse_extra
from timeloom.core.timeline import Entry
from timeloom.core.view.block_view import BlockView, Folds

LINKS_FIELD: Final = "links"
"""The field of a source with the addresses that its page links to."""

MAX_SEEN: Final = 20_000
"""Most addresses that are remembered; further ones count as new. More would make snapshots of a conversation large."""

MAX_ADDRESS_CHARS: Final = 2_048
"""Longest address that is remembered; a longer one counts as new."""

MAX_SCANNED_CHARS: Final = 200_000
"""Characters of one text that are searched for addresses."""

_URL: Final = re.compile(r"https?://[^\s<>\"'`\\^{}|\x00-\x20]{1,2048}", re.IGNORECASE)
_BARE: Final = re.compile(
    r"(?<![\w@./:-])(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?::[0-9]{1,5})?(?:/[^\s<>\"'`\\^{}|\x00-\x20]{0,2048})?"
)
_AFTER: Final = ".,;:!?*_~"
_BRACKETS: Final = (")", "]")


REFERENCE: Final = "ref:"
"""The beginning of a parameter that an artifact replaces."""


class NewAddress(msgspec.Struct, frozen=True, kw_only=True):
    """An address that nobody wrote before.

    `known` is the beginning that it shares with a known address of its host, `added` the rest.
    """

    url: str
    known: str
    added: str


class SeenAddressesView(BlockView, msgspec.Struct):
    """The addresses in the user's messages and in the sources, without their scheme."""

    seen: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    """The first entry of each address."""

    def find_new(self, urls: Iterable[str]) -> tuple[NewAddress, ...]:
        """Return those of the addresses that were not seen; an address that cannot be requested is not new."""
        return tuple(map(self._describe, dict.fromkeys(url for url in urls if self._is_new(url))))

    def _is_new(self, url: str) -> bool:
        # A reference is replaced by the text of an artifact after the gates, so it could be any address.
        if url.lstrip().startswith(REFERENCE):
            return True
        key = _key(url)
        return key is not None and key not in self.seen

    def _describe(self, url: str) -> NewAddress:
        key = _key(url) or url
        host = key.partition("/")[0]
        same = max((_common_chars(key, one) for one in self.seen if one.startswith(f"{host}/")), default=0)
        return NewAddress(url=url, known=key[:same], added=key[same:])

    def _add_user_text(self, entry: Entry, block: UserPrompt | Followup | Steer) -> None:
        # A message with quoted history contains text of others.
        if not (isinstance(block, UserPrompt | Followup) and block.quoted_roles):
            self._add_text(entry, block.text, with_bare=True)

    def _add_event(self, entry: Entry, block: ExternalEvent) -> None:
        if block.author == "user":
            self._add_text(entry, block.text, with_bare=True)

    def _add_sources(self, entry: Entry, block: SourcesAdded) -> None:
        for row in block.rows:
            self._add_key(entry, _key(row.url))
            self._add_text(entry, row.text, with_bare=False)
            for link in _links(row):
                self._add_key(entry, _key(link))

    def _add_text(self, entry: Entry, text: Text, *, with_bare: bool) -> None:
        # A text that is kept as a payload is not read here: its addresses count as new, which asks once too often.
        if isinstance(text, str):
            for url in _find_urls(text[:MAX_SCANNED_CHARS], with_bare=with_bare):
                self._add_key(entry, _key(url))

    def _add_key(self, entry: Entry, key: str | None) -> None:
        if key and len(key) <= MAX_ADDRESS_CHARS and len(self.seen) < MAX_SEEN:
            self.seen.setdefault(key, entry.seq)

    folds: ClassVar[Folds] = {
        UserPrompt: _add_user_text,
        Followup: _add_user_text,
        Steer: _add_user_text,
        ExternalEvent: _add_event,
        SourcesAdded: _add_sources,
    }


def find_param_texts(params: str, names: Sequence[str]) -> list[str]:
    """Return the texts of these parameters of a call, also those in lists; `params` is a JSON object text."""
    if not names:
        return []
    values = msgspec.json.decode(params, type=dict[str, object])
    return [text for name in names for text in _texts_in(values.get(name))]


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (item for item in cast("list[object]", value) if isinstance(item, str))


def _common_chars(text: str, other: str) -> int:
    """Return the length of the common beginning."""
    pairs = enumerate(zip(text, other, strict=False))
    return next((at for at, (one, two) in pairs if one != two), min(len(text), len(other)))


def _key(url: str) -> str | None:
    """Return the address as a request spells it, without its scheme; None if it cannot be requested."""
    parts = split_url(url)
    if parts is None or parts.scheme not in ("http", "https"):
        return None
    return f"{parts.host}{parts.port}{parts.path}{parts.query}"


def _find_urls(text: str, *, with_bare: bool) -> Iterator[str]:
    """Yield the addresses in a text, also without punctuation and brackets that may not belong to them."""
    found = [match[0] for match in _URL.finditer(text)]
    if with_bare:
        found += [f"https://{match[0]}" for match in _BARE.finditer(text)]
    for url in found:
        yield url
        shorter = url
        while (stripped := shorter.rstrip(_AFTER)) != shorter or shorter.endswith(_BRACKETS):
            shorter = stripped if stripped != shorter else shorter[:-1]
            yield shorter


def _links(row: SourceRow) -> Iterator[str]:
    links = parse_extra(row.extra).get(LINKS_FIELD)
    yield from _texts_in(links)
