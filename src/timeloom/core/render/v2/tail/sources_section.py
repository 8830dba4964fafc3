"""Renders the newest sources by citation id, in the uncached tail of the prompt."""

from heapq import nlargest
from typing import Final

from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.render.names import Names
from timeloom.core.render.v2.entries.previews import PDF, bare_mime
from timeloom.core.render.v2.fence import fence_line
from timeloom.core.sources import SourceRow, SourcesPool

MAX_ROWS: Final = 40
"""Maximum number of rows, the newest. More rows make every round pay for old questions; fewer hide results of one
search."""

MAX_SNIPPET_CHARS: Final = 240
"""Maximum length of a row's text."""


def sources_section(pool: SourcesPool, names: Names, max_rows: int = MAX_ROWS) -> str:
    """Return the section; empty while there are no sources."""
    if not pool.rows:
        return ""
    rows = [pool.rows[sid] for sid in _newest_sids(pool, max_rows)]
    left_out = len(pool.rows) - len(rows)
    older = f'[SOURCES POOL] {left_out} older rows: react.read(["so:sources_pool[1-{rows[0].sid - 1}]"])'
    how = 'cite as [[S:1]] or [[S:1,3]]; read the whole text with react.read(["so:sources_pool[1]"])'
    lines = [f"[SOURCES POOL] {how}", *([older] if left_out else [])]
    return "\n".join([*lines, *(line for row in rows for line in _row_lines(row, names))]) + "\n"


def _newest_sids(pool: SourcesPool, count: int) -> list[int]:
    """Return the largest ids in order. Ids are sequential, so the search starts at the end."""
    last = pool.next_sid - 1
    near = [sid for sid in range(last, max(0, last - 4 * count), -1) if sid in pool.rows][:count]
    enough = len(near) == min(count, len(pool.rows))
    return near[::-1] if enough else sorted(nlargest(count, pool.rows))


def _row_lines(row: SourceRow, names: Names) -> list[str]:
    where = names.path(row.artifact_path) if row.artifact_path else row.domain or row.url
    fields = [one_line(row.title) or "(no title)", one_line(row.mime) or row.source_type, one_line(where)]
    if row.base64 is not None or _is_binary(row.mime):
        return [_head(row.sid, [*fields, "<base64>"])]
    return [_head(row.sid, fields), *([fence_line(row.text, MAX_SNIPPET_CHARS)] if row.text.strip() else [])]


def _head(sid: int, fields: list[str]) -> str:
    return f"[S {sid}] {' | '.join(field for field in fields if field)}"


def _is_binary(mime: str) -> bool:
    mime = bare_mime(mime)
    return mime.startswith("image/") or mime == PDF
