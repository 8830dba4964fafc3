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
    parse_extra,
    prepare_for_pool,
    to_json_text,
    with_sid,
)
from timeloom.core.sources.url import normalize_url

_SOURCE_FIELDS: Final = (
    *("title", "url", "artifact_path", "physical_path", "domain", "favicon", "published_time_iso"),
    *("provider_rank", "weighted_rank", "objective_relevance", "query_relevance", "authority"),
)
_LOCATION_FIELDS: Final = ("rn", "hosted_uri", "key")
_TIME_FIELDS: Final = ("modified_time_iso", "fetched_time_iso")
_BODY_FIELDS: Final = ("text", "content", "mime", "size_bytes", "base64", *_LOCATION_FIELDS)


class MergeResult(msgspec.Struct, frozen=True):
    """Result of a merge: the new or changed rows to record, and the id of each source in the given order."""

    added: tuple[SourceRow, ...]
    sids: tuple[int, ...]


class SourcesPool(msgspec.Struct):
    """All recorded source rows. `add_rows` adds to the pool; `merge` returns the rows to record for new sources."""

    rows: dict[int, SourceRow] = msgspec.field(default_factory=dict[int, SourceRow])
    sid_by_key: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    next_sid: int = 1

    def merge(self, sources: Iterable[NewSource], first_sid: int = 1) -> MergeResult:
        """Return the rows to record so that the pool contains these sources; the pool itself does not change.

        New rows have ids from `first_sid` on, and never an id that the pool has given.
        """
        first_sid = max(first_sid, self.next_sid)
        changed: dict[int, SourceRow] = {}
        new_sids: dict[str, int] = {}
        sids: list[int] = []
        for source in map(prepare_for_pool, sources):
            key = merge_key(source)
            sid = self.sid_by_key.get(key) or new_sids.setdefault(key, first_sid + len(new_sids))
            known = changed.get(sid) or self.rows.get(sid)
            row = with_sid(source, sid) if known is None else _enrich(known, source, key)
            if row is not known:
                changed[sid] = row
            sids.append(sid)
        return MergeResult(added=tuple(changed.values()), sids=tuple(sids))

    def row_with(self, sid: int, sources: Iterable[NewSource]) -> SourceRow:
        """Return the row with that id and these sources of one merge key; the same row if they change nothing.

        The pool itself does not change, and needs no row with that id yet.
        """
        row = self.rows.get(sid)
        for source in map(prepare_for_pool, sources):
            row = with_sid(source, sid) if row is None else _enrich(row, source, merge_key(source))
        assert row is not None
        return row

    def add_rows(self, rows: Iterable[SourceRow]) -> None:
        """Add recorded rows; a row with a known id replaces the old version if it is the same source.

        The first recorded source of an id and the first id of a merge key are final. A row with a known id and another
        key is ignored; a known key keeps its id. This holds for any log, including foreign ones.
        """
        for row in rows:
            key, known = merge_key(row), self.rows.get(row.sid)
            if known is None or merge_key(known) == key:
                self.rows[row.sid] = row
                self.sid_by_key.setdefault(key, row.sid)
                self.next_sid = max(self.next_sid, row.sid + 1)

    def find(self, source: NewSource) -> SourceRow | None:
        """Return the row with the merge key of that source; None if there is none."""
        sid = self.sid_by_key.get(merge_key(source))
        return None if sid is None else self.rows.get(sid)

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

    def list_rows(self) -> tuple[SourceRow, ...]:
        """Return all rows, sorted by id."""
        return tuple(self.rows[sid] for sid in sorted(self.rows))

    def _sids_between(self, first: int, last: int) -> Iterable[int]:
        if last - first < len(self.rows):
            return (sid for sid in range(first, last + 1) if sid in self.rows)
        return sorted(sid for sid in self.rows if first <= sid <= last)


def merge_key(source: NewSource) -> str:
    """Return the merge key: the path of a file, else the normalised address, else a hash of the content."""
    if source.physical_path and source.source_type in ("file", "attachment"):
        return f"path:{source.physical_path}"
    if address := normalize_url(source.url):
        return f"url:{address}"
    content = "\0".join((source.artifact_path, source.title, source.text, _hash_of(source.content)))
    return f"text:{_hash_of(content)}"


def _hash_of(text: Text) -> str:
    return ref_of(text.encode()).sha256 if isinstance(text, str) else text.sha256


def _enrich(known: SourceRow, source: NewSource, key: str) -> SourceRow:
    """Return the known row with gaps filled and an older body replaced; the same object if nothing changes."""
    changes = _fill_gaps(known, source, _SOURCE_FIELDS) | _body_changes(known, source)
    if source.extra:
        changes["extra"] = _merge_extra(known.extra, source.extra)
    row = replace(known, **changes)
    return row if row != known and merge_key(row) == key else known


def _fill_gaps(known: NewSource, source: NewSource, names: Iterable[str]) -> dict[str, object]:
    return {name: getattr(source, name) for name in names if _is_empty(getattr(known, name))}


def _is_empty(value: object) -> bool:
    return value is None or value == ""


def _body_changes(known: NewSource, source: NewSource) -> dict[str, object]:
    """Return the changes of the body and its metadata; they change together, since a size belongs to one body."""
    if _body_rank(source) < _body_rank(known):
        return {}
    before, after = _time_of(known), _time_of(source)
    if after is not None and (before is None or after > before):
        new = {name: getattr(source, name) for name in (*_BODY_FIELDS, *_TIME_FIELDS)}
        # Without a known body there is none to replace, so fields that the new source leaves empty keep their values.
        return new if _body_rank(known) else {n: new[n] for n in new if n in _TIME_FIELDS or not _is_empty(new[n])}
    if _body_rank(known) and not (before == after and _can_be_same_body(known, source)):
        return {}
    timed = any(getattr(known, name) for name in _TIME_FIELDS)
    return _fill_gaps(known, source, _BODY_FIELDS if timed else (*_BODY_FIELDS, *_TIME_FIELDS))


def _body_rank(source: NewSource) -> int:
    """Return 2 if the source has content, 1 if it has a preview or a location, else 0."""
    if source.content:
        return 2
    return 1 if source.base64 or any(getattr(source, name) for name in _LOCATION_FIELDS) else 0


def _can_be_same_body(known: NewSource, source: NewSource) -> bool:
    """Return whether the two sources can have the same body: no field contradicts."""
    pairs = [(getattr(known, name), getattr(source, name)) for name in ("base64", *_LOCATION_FIELDS)]
    if known.content and source.content:
        pairs.append((_hash_of(known.content), _hash_of(source.content)))
    return all(_is_empty(one) or _is_empty(other) or one == other for one, other in pairs)


def _time_of(source: NewSource) -> datetime | None:
    try:
        time = datetime.fromisoformat(source.fetched_time_iso or source.modified_time_iso)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _merge_extra(known: str, new: str) -> str:
    both = to_json_text({**parse_extra(new), **parse_extra(known)})
    return both if len(both) <= MAX_FIELD_CHARS else known
