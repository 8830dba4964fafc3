"""Shrinking a prompt that is too long for its model: the older half of the tool results in sight become stubs."""

from timeloom.core.blocks import Cut, Pruned
from timeloom.core.paths import MAX_PATH_CHARS
from timeloom.core.render.fence import one_line
from timeloom.core.timeline import Entry
from timeloom.runtime.session import Session


async def shrink(session: Session) -> bool:
    """Records what is to be forgotten, each thing with the path where it is read again; False where nothing is left."""
    views = session.views
    progress = views.progress
    current = {f"{progress.turn_id}.{call_id}" for call_id in progress.calls}
    seqs = sorted(
        seq
        for key, call in views.calls.calls.items()
        if key not in current
        for seq in call.content_seqs
        if views.visible.shown.get(seq, "gone") is None
    )
    chosen = seqs[: (len(seqs) + 1) // 2]
    if not chosen:
        return False
    entries = await session.entries(chosen)
    cuts = tuple(Cut(entry.seq, entry.seq, _stub(entry)) for entry in entries)
    reason = f"the prompt was too long for the model; {len(cuts)} of {len(seqs)} results became stubs"
    await session.append([Pruned(cuts=cuts, reason=reason)], progress.turn_id)
    return True


def _stub(entry: Entry) -> str:
    # A prompt shows the text of a cut as it is recorded, and a file's name is foreign.
    path = one_line(entry.path, MAX_PATH_CHARS)
    return f'a result was taken out to make room; read it with react.read(["{path}"])'
