"""Pool of a conversation's sources, each under the id that citations name."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from timeloom.core.payload import Text, ref_of
from timeloom.core.sources.rows import (
    MAX_FIELD_CHARS,
    NewSource,
    SourceRow,
    admitted,
    json_text,
    unknown_fields,
    with_sid,
)
from timeloom.core.sources.url import normalize_url

_OF_THE_SOURCE: Final = (
    *("title", "url", "artifact_path", "physical_path", "domain", "favicon", "published_time_iso"),
    *("provider_rank", "weighted_rank", "objective_relevance", "query_relevance", "authority"),
)
_PLACES: Final = ("rn", "hosted_uri", "key")
_TIMES: Final = ("modified_time_iso", "fetched_time_iso")
_OF_THE_BODY: Final = ("text", "content", "mime", "size_bytes", "base64", *_PLACES)


class Merged(msgspec.Struct, frozen=True):
    """Result of a merge: the new or changed rows to record, and the id of each source in the given order."""

    added: tuple[SourceRow, ...]
    sids: tuple[int, ...]


class SourcesPool(msgspec.Struct):
    """All recorded source rows. `add_rows` adds to the pool; `merge` returns the rows to record for new sources."""

    rows: dict[int, SourceRow] = msgspec.field(default_factory=dict[int, SourceRow])
    sid_by_key: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    next_sid: int = 1

    def merge(self, sources: Iterable[NewSource]) -> Merged:
        """Return the rows to record so that the pool contains these sources; the pool itself does not change."""
        changed: dict[int, SourceRow] = {}
        new_sids: dict[str, int] = {}
        sids: list[int] = []
        for source in map(admitted, sources):
            key = key_of(source)
            sid = self.sid_by_key.get(key) or new_sids.setdefault(key, self.next_sid + len(new_sids))
            known = changed.get(sid) or self.rows.get(sid)
            row = with_sid(source, sid) if known is None else _enriched(known, source, key)
            if row is not known:
                changed[sid] = row
            sids.append(sid)
        return Merged(added=tuple(changed.values()), sids=tuple(sids))

    def add_rows(self, rows: Iterable[SourceRow]) -> None:
        """Add recorded rows; a row with a known id replaces the old version if it is the same source.

        The first recorded source of an id and the first id of a merge key are final. A row with a known id and another
        key is ignored; a known key keeps its id. This holds for any log, including foreign ones.
        """
        for row in rows:
            key, known = key_of(row), self.rows.get(row.sid)
            if known is None or key_of(known) == key:
                self.rows[row.sid] = row
                self.sid_by_key.setdefault(key, row.sid)
                self.next_sid = max(self.next_sid, row.sid + 1)

    def get(self, sid: int) -> SourceRow | None:
        """Return the row with that id; None if there is none."""
        return self.rows.get(sid)

    def select(self, ranges: Iterable[int | tuple[int, int]]) -> tuple[SourceRow, ...]:
        """Return the rows of these ids and inclusive ranges, each once, in the given order; unknown ids are skipped."""
        chosen: dict[int, SourceRow] = {}
        for item in ranges:
            first, last = (item, item) if isinstance(item, int) else item
            for sid in self._sids_between(first, last):
                chosen.setdefault(sid, self.rows[sid])
        return tuple(chosen.values())

    def ordered(self) -> tuple[SourceRow, ...]:
        """Return all rows, sorted by id."""
        return tuple(self.rows[sid] for sid in sorted(self.rows))

    def _sids_between(self, first: int, last: int) -> Iterable[int]:
        if last - first < len(self.rows):
            return (sid for sid in range(first, last + 1) if sid in self.rows)
        return sorted(sid for sid in self.rows if first <= sid <= last)


def key_of(source: NewSource) -> str:
    """Return the merge key: the path of a file, else the normalised address, else a hash of the content."""
    if source.physical_path and source.source_type in ("file", "attachment"):
        return f"path:{source.physical_path}"
    if address := normalize_url(source.url):
        return f"url:{address}"
    said = "\0".join((source.artifact_path, source.title, source.text, _hash_of(source.content)))
    return f"text:{_hash_of(said)}"


def _hash_of(text: Text) -> str:
    return ref_of(text.encode()).sha256 if isinstance(text, str) else text.sha256


def _enriched(known: SourceRow, source: NewSource, key: str) -> SourceRow:
    """Return the known row with gaps filled and an older body replaced; the same object if nothing changes."""
    changes = _in_gaps(known, source, _OF_THE_SOURCE) | _of_the_body(known, source)
    if source.extra:
        changes["extra"] = _filled_extra(known.extra, source.extra)
    row = replace(known, **changes)
    return row if row != known and key_of(row) == key else known


def _in_gaps(known: NewSource, source: NewSource, names: Iterable[str]) -> dict[str, object]:
    return {name: getattr(source, name) for name in names if _is_empty(getattr(known, name))}


def _is_empty(value: object) -> bool:
    return value is None or value == ""


def _of_the_body(known: NewSource, source: NewSource) -> dict[str, object]:
    """Return the changes of the body and its metadata; they change together, since a size belongs to one body."""
    if _body_rank(source) < _body_rank(known):
        return {}
    before, after = _when(known), _when(source)
    if after is not None and (before is None or after > before):
        new = {name: getattr(source, name) for name in (*_OF_THE_BODY, *_TIMES)}
        # Without a known body there is none to replace, so fields that the new source leaves empty keep their values.
        return new if _body_rank(known) else {n: new[n] for n in new if n in _TIMES or not _is_empty(new[n])}
    if _body_rank(known) and not (before == after and _agree(known, source)):
        return {}
    timed = any(getattr(known, name) for name in _TIMES)
    return _in_gaps(known, source, _OF_THE_BODY if timed else (*_OF_THE_BODY, *_TIMES))


def _body_rank(source: NewSource) -> int:
    """Return 2 if the source has content, 1 if it has a preview or a location, else 0."""
    if source.content:
        return 2
    return 1 if source.base64 or any(getattr(source, name) for name in _PLACES) else 0


def _agree(known: NewSource, source: NewSource) -> bool:
    """Return whether the two sources can have the same body: no field contradicts."""
    pairs = [(getattr(known, name), getattr(source, name)) for name in ("base64", *_PLACES)]
    if known.content and source.content:
        pairs.append((_hash_of(known.content), _hash_of(source.content)))
    return all(_is_empty(one) or _is_empty(other) or one == other for one, other in pairs)


def _when(source: NewSource) -> datetime | None:
    try:
        time = datetime.fromisoformat(source.fetched_time_iso or source.modified_time_iso)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _filled_extra(known: str, new: str) -> str:
    both = json_text({**unknown_fields(new), **unknown_fields(known)})
    return both if len(both) <= MAX_FIELD_CHARS else known
