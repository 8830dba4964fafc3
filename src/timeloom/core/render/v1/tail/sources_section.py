"""Renders SOURCES POOL, the newest sources by citation id, in the uncached tail of the prompt."""

from heapq import nlargest
from typing import Final

from timeloom.core.render.foreign_text.fence import fence, one_line
from timeloom.core.render.v1.entries.previews import PDF, bare_mime
from timeloom.core.sources import SourceRow, SourcesPool

MAX_ROWS: Final = 40
"""Maximum number of rows, the newest. More rows make every round pay for old questions; fewer hide results of one
search."""

MAX_SNIPPET_CHARS: Final = 240
"""Maximum length of a row's text."""


def sources_section(pool: SourcesPool, max_rows: int = MAX_ROWS, *, marks_binary: bool = False) -> str:
    """Return the section; empty while there are no sources.

    `marks_binary` shows `<base64>` for every image and PDF. It is off, because the prompts of stored logs must not
    change; the next version of the rendering sets it.
    """
    if not pool.rows:
        return ""
    rows = [pool.rows[sid] for sid in _newest_sids(pool, max_rows)]
    lines = [line for row in rows for line in _row_lines(row, marks_binary=marks_binary)]
    left_out = len(pool.rows) - len(rows)
    oldest = rows[0].sid
    more = [f'({left_out} older rows: react.read(["so:sources_pool[1-{oldest - 1}]"]))'] if left_out else []
    how = 'cite as [[S:1]] or [[S:1,3]]; read the whole text with react.read(["so:sources_pool[1]"])'
    return "\n".join([f"SOURCES POOL\n({how})", *more, *lines]) + "\n"


def _newest_sids(pool: SourcesPool, count: int) -> list[int]:
    """Return the largest ids in order. Ids are sequential, so the search starts at the end."""
    last = pool.next_sid - 1
    near = [sid for sid in range(last, max(0, last - 4 * count), -1) if sid in pool.rows][:count]
    enough = len(near) == min(count, len(pool.rows))
    return near[::-1] if enough else sorted(nlargest(count, pool.rows))


def _row_lines(row: SourceRow, *, marks_binary: bool) -> list[str]:
    where = row.artifact_path or row.domain or row.url
    head = f"[S {row.sid}] {one_line(row.title) or '(no title)'} | {one_line(row.mime) or row.source_type}"
    lines = [f"{head} | {one_line(where)}" if where else head]
    if row.base64 is not None or (marks_binary and _is_binary(row.mime)):
        return [*lines, "<base64>"]
    if row.text:
        text = row.text if len(row.text) <= MAX_SNIPPET_CHARS else row.text[: MAX_SNIPPET_CHARS - 1] + "…"
        lines.append(fence(" ".join(text.split())))
    return lines


def _is_binary(mime: str) -> bool:
    mime = bare_mime(mime)
    return mime.startswith("image/") or mime == PDF
