"""Runs one conversation for the benchmark of rounds in a separate process, so that garbage collection is isolated.

Reads a job as a line of JSON, creates the conversation and reports it in a line. Then it runs a turn for every further
line and prints the duration of its rounds. It ends with its input.
"""

import asyncio
import contextlib
import sys
import time
from pathlib import Path

import msgspec

from bench.histories import write_history
from bench.loops import LoopingModel, look, make_bench_turns
from bench.measures import peak_bytes
from timeloom.core.ids import ConversationId
from timeloom.core.policy.pruning import PruneSettings
from timeloom.core.render.editions import THIRD_EDITION
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.runtime.session.session import Session
from timeloom.stores.sqlite import SqliteStore

_FRESH_BLOCKS = 2_000
"""Conversations up to this length are created again for each turn, because one turn would make them much longer."""

_WARM_UP = 2
"""Rounds of a turn that do not count: the first opens the prompt of the whole conversation."""


_NEVER = PruneSettings(min_saving_tokens=sys.maxsize)
"""Old turns are not pruned to cards: the whole conversation stays visible."""


class RoundsJob(msgspec.Struct, frozen=True):
    """The length of the conversation, its folder, the number of rounds that count, and the edition of the prompt."""

    blocks: int
    folder: str
    rounds: int
    edition: int = THIRD_EDITION


class RoundsReady(msgspec.Struct, frozen=True):
    """The conversation exists; its number of blocks and of visible ones."""

    blocks: int
    in_sight: int
    is_kept: bool
    """Whether all turns are added to this conversation."""


class TurnTimes(msgspec.Struct, frozen=True):
    """Durations of one turn without model and tools: each round in two parts, and opening the first prompt."""

    after_reply_s: list[float]
    before_request_s: list[float]
    cpu_s: list[float]
    """CPU time of each round in all threads, including the little that model and tool use."""
    opening_s: float
    prompt_chars: int
    peak_bytes: int

    def round_s(self) -> list[float]:
        """Return the total duration of each round."""
        return [first + second for first, second in zip(self.after_reply_s, self.before_request_s, strict=True)]


class _OwnTimeClock:
    """Measures the time while neither the model nor a tool runs."""

    def __init__(self) -> None:
        self.before_request_s: list[float] = []
        self.after_reply_s: list[float] = []
        self.cpu_s: list[float] = []
        self._own_s = 0.0
        self._since = time.perf_counter()
        self._cpu_since = time.process_time()

    def resume_clock(self) -> None:
        """Resume the clock: the model or the tool has paused."""
        self._since = time.perf_counter()

    def stop_clock(self) -> None:
        """Stop the clock: the model or the tool continues."""
        self._own_s += time.perf_counter() - self._since

    def record_request(self) -> None:
        """Record that the model received the request."""
        self.stop_clock()
        self.before_request_s.append(self._take_own_s())
        before, self._cpu_since = self._cpu_since, time.process_time()
        self.cpu_s.append(self._cpu_since - before)

    def record_call(self) -> None:
        """Record that the call is durable and its tool starts."""
        self.stop_clock()
        self.after_reply_s.append(self._take_own_s())

    def _take_own_s(self) -> float:
        own_s, self._own_s = self._own_s, 0.0
        return own_s


async def _main() -> None:
    job = msgspec.json.decode(sys.stdin.readline(), type=RoundsJob)
    async with await SqliteStore.open(Path(job.folder)) as store:
        session = await _prepare_session(store, job, 0)
        is_kept = job.blocks > _FRESH_BLOCKS
        _send(RoundsReady(session.views.tail, len(session.views.visible.shown), is_kept))
        for number, _ in enumerate(sys.stdin, 1):
            if number > 1 and not is_kept:
                session = await _prepare_session(store, job, number)
            _send(await _run_turn(session, job))


async def _prepare_session(store: SqliteStore, job: RoundsJob, number: int) -> Session:
    conversation = ConversationId(f"conv_{number}")
    await write_history(store, conversation, job.blocks, edition=job.edition)
    return await Session.resume(store, conversation, SystemClock(), RandomIds())


async def _run_turn(session: Session, job: RoundsJob) -> TurnTimes:
    watch = _OwnTimeClock()
    model = LoopingModel(_WARM_UP + job.rounds + 1, watch.record_request, watch.resume_clock, watch.stop_clock)
    looks = look(watch.record_call, watch.resume_clock)
    turns = make_bench_turns(session, model, looks, Path(job.folder), prune=_NEVER, edition=job.edition)
    watch.resume_clock()
    await turns.run("Look at all places once more.")
    return TurnTimes(
        after_reply_s=watch.after_reply_s[_WARM_UP:],
        before_request_s=watch.before_request_s[_WARM_UP + 1 :],
        cpu_s=watch.cpu_s[_WARM_UP + 1 :],
        opening_s=watch.before_request_s[0],
        prompt_chars=model.prompt_chars,
        peak_bytes=peak_bytes(),
    )


def _send(what: msgspec.Struct) -> None:
    print(msgspec.json.encode(what).decode(), flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main())
