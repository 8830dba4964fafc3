"""Opens one long conversation in a separate process and reports the memory that it needs.

Reads a job as a line of JSON and prints the report as JSON. Each process does one thing, because the peak of a process
never falls: it writes the conversation, opens it for the first time, or opens it with the snapshots of an earlier one.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from bench import synthetic
from bench.deep_size import DeepSize
from bench.drafts import to_appends
from bench.histories import write_history
from bench.loops import LoopingModel, look, make_bench_turns
from bench.measures import peak_bytes
from timeloom.core.blocks import ModelAnswered, ModelCalled
from timeloom.core.ids import ConversationId
from timeloom.core.policy.pruning import PruneSettings
from timeloom.core.timeline import Draft
from timeloom.core.view.views import Views
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.runtime.prompt.builder import PromptBuilder
from timeloom.runtime.session.session import Session
from timeloom.stores.sqlite import SqliteStore

Shape = Literal["loop", "session"]

_CONVERSATION: Final = ConversationId("conv_held")
_BATCH: Final = 1000
_NEVER: Final = PruneSettings(min_saving_tokens=sys.maxsize)
_ROUNDS: Final = 20


class MemoryJob(msgspec.Struct, frozen=True):
    """What to do: `write` a conversation of that shape and length, or `open` it and run a turn."""

    does: Literal["write", "open"]
    folder: str
    shape: Shape
    blocks: int


class MemoryReport(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of a process at several points, the times of its start, and the holders of the memory in bytes."""

    in_sight: int = 0
    prompt_chars: int = 0
    imported_bytes: int = 0
    loaded_bytes: int = 0
    prompted_bytes: int = 0
    peak_bytes: int = 0
    load_s: float = 0
    first_prompt_s: float = 0
    cpu_s: float = 0
    """CPU time of loading and of the first prompt together."""
    holders: dict[str, int] = {}


async def _main(job: MemoryJob) -> MemoryReport:
    async with await SqliteStore.open(Path(job.folder)) as store:
        if job.does == "open":
            return await _open(store, job)
        if job.shape == "loop":
            await write_history(store, _CONVERSATION, job.blocks)
            return MemoryReport()
        drafts = list(_session_drafts(job.blocks))
        for at in range(0, len(drafts), _BATCH):
            await store.append(_CONVERSATION, at, drafts[at : at + _BATCH])
        return MemoryReport()


def _session_drafts(blocks: int) -> Iterator[Draft]:
    """Yield a session of a coding agent whose results have 2,000 characters, with a request before each reply."""
    count = 0
    for step in to_appends(synthetic.session("held", blocks // 2)):
        for draft in step:
            if isinstance(draft.block, ModelAnswered):
                call = ModelCalled(round=draft.block.round, model=draft.block.model, request_sha256="0" * 64)
                yield Draft(draft.turn_id, draft.ts, call)
                count += 1
            yield draft
            count += 1
        if count >= blocks:
            return


async def _open(store: SqliteStore, job: MemoryJob) -> MemoryReport:
    imported = peak_bytes()
    began_s, cpu_s = time.perf_counter(), time.process_time()
    session = await Session.resume(store, _CONVERSATION, SystemClock(), RandomIds())
    loaded_s, loaded = time.perf_counter(), _resident_bytes()
    in_sight = len(session.views.visible.shown)
    requests: list[tuple[float, float, int]] = []
    model = LoopingModel(
        _ROUNDS,
        lambda: requests.append((time.perf_counter(), time.process_time(), _resident_bytes())),
        lambda: None,
        lambda: None,
    )
    turns = make_bench_turns(session, model, look(lambda: None, lambda: None), Path(job.folder), prune=_NEVER)
    await turns.run("Look at all places once more.")
    peak = peak_bytes()
    (builder,) = (one for one in gc.get_objects() if isinstance(one, PromptBuilder))
    holders = _find_holders(session.views, builder)
    await session.close()
    return MemoryReport(
        in_sight=in_sight,
        prompt_chars=model.prompt_chars,
        imported_bytes=imported,
        loaded_bytes=loaded,
        prompted_bytes=requests[0][2],
        peak_bytes=peak,
        load_s=loaded_s - began_s,
        first_prompt_s=requests[0][0] - loaded_s,
        cpu_s=requests[0][1] - cpu_s,
        holders=holders,
    )


def _find_holders(views: Views, builder: PromptBuilder) -> dict[str, int]:
    """Return the bytes of the views and of the rendered prompt; each object counts once, for its first holder."""
    size = DeepSize()
    view = builder._view  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 - a benchmark may look inside
    assert view
    parts = view._parts  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
    held = {"text of the prompt": sum(size.bytes_of(one.text) for part in parts for one in part.segments())}
    held["parts of the prompt: numbers of each entry, hashes"] = size.bytes_of(view)
    held["segments of the request"] = size.bytes_of(builder._request_segments._segments)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
    held["view: entries by path"] = size.bytes_of(views.paths)
    for name in ("visible", "calls", "artifacts", "turns"):
        held[f"view: {name}"] = size.bytes_of(getattr(views, name))
    held["other views"] = size.bytes_of(views)
    return held


def _resident_bytes() -> int:
    """Return the memory of this process now; 0 if the system does not report it."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS")), 0)


if __name__ == "__main__":
    _job = msgspec.json.decode(sys.stdin.readline(), type=MemoryJob)
    print(msgspec.json.encode(asyncio.run(_main(_job))).decode())
