"""Collects the sources that a tool adds while its call runs."""

from dataclasses import dataclass, field

from timeloom.core.codes import CodedError
from timeloom.core.paths import MAX_SELECTED
from timeloom.core.sources import NewSource, SourceRow
from timeloom.runtime.session.session import Session


@dataclass(frozen=True, slots=True)
class AddedSources:
    """The sources of one call, by the ids that the tool may cite; they become rows with the result of the call."""

    session: Session
    _sources: dict[int, list[NewSource]] = field(default_factory=dict[int, list[NewSource]])

    def add(self, source: NewSource) -> int:
        """Return the id of the source; raise if the call has added too many."""
        if sum(map(len, self._sources.values())) >= MAX_SELECTED:
            raise CodedError("tool_result_too_large", f"one call adds at most {MAX_SELECTED} sources")
        sid = self.session.source_ids.reserve(source, self.session.views.sources.pool)
        self._sources.setdefault(sid, []).append(source)
        return sid

    def rows(self) -> tuple[SourceRow, ...]:
        """Return the rows that are new, or that these sources change."""
        pool = self.session.views.sources.pool
        # A copy, because a tool in a thread may still add sources when its call has ended.
        rows = (pool.row_with(sid, tuple(sources)) for sid, sources in tuple(self._sources.items()))
        return tuple(row for row in rows if row is not pool.get(row.sid))
