"""Adds sources to the pool of a conversation, and describes them in the result of a web tool."""

from collections.abc import Sequence
from typing import Final

from timeloom.core.codes import CodedError
from timeloom.core.sources import NewSource
from timeloom.ports.tool import Artifact, ToolContext

SHOWN_CHARS: Final = 500
"""Characters of a page that its result shows; the whole text is in the source."""

JSON: Final = "application/json"


def add_to_pool(sources: Sequence[NewSource], context: ToolContext) -> tuple[int, ...]:
    """Add the sources to the pool and return the id of each; calls at the same time get different ids."""
    if context.new_sources is None:
        raise CodedError("source_malformed", "this call has no conversation whose pool could take a source")
    return tuple(map(context.new_sources.add, sources))


def result_artifacts(text: str, sids: Sequence[int], context: ToolContext) -> tuple[Artifact, ...]:
    """Return the metadata that names the sources, and the content at the path of the call."""
    path = f"tc:{context.turn_id}.{context.tool_call_id}.result"
    content = Artifact(path=path, mime=JSON, text=text, content_only=True)
    used = tuple(sorted(set(sids)))
    metadata = Artifact(
        path=_pool_path(used) if used else path,
        mime=JSON,
        kind="file",
        visibility="internal",
        sources_used=used,
        meta_only=True,
    )
    return metadata, content


def _pool_path(sids: Sequence[int]) -> str:
    """Return the path of these rows, with runs of ids as ranges; `sids` is sorted."""
    runs: list[list[int]] = []
    for sid in sids:
        if runs and runs[-1][1] == sid - 1:
            runs[-1][1] = sid
        else:
            runs.append([sid, sid])
    return f"so:sources_pool[{','.join(f'{a}' if a == b else f'{a}-{b}' for a, b in runs)}]"
