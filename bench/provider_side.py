"""Runs rounds through a provider in a separate process and reports the CPU time of each.

It runs as a program, reads one job as JSON from standard input and prints one answer as JSON.
"""

import asyncio
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal

import msgspec

from bench.loops import HEADER, look, make_bench_turns
from timeloom.core.ids import ConversationId
from timeloom.core.policy.pruning import PruneSettings
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.providers.registry import open_model
from timeloom.providers.settings import ModelSettings
from timeloom.runtime.session.session import Session
from timeloom.stores.sqlite import SqliteStore

ProviderName = Literal["openai", "anthropic"]

_NEVER: Final = PruneSettings(min_saving_tokens=sys.maxsize)
_LINE: Final = "строка {0}: дверь открыта — “nobody is there”, die Lampe über der Tür brennt\n"
_SEEN: Final = "".join(_LINE.format(n) for n in range(12))
"""About 900 characters of several scripts, as files and pages have them; plain ASCII would cost nothing to encode."""

_WINDOW_TOKENS: Final = 100_000_000


class ProviderJob(msgspec.Struct, frozen=True, kw_only=True):
    """The provider, its base URL, a folder for the conversation, and the rounds of its only turn."""

    provider: ProviderName
    url: str
    folder: str
    rounds: int


class ProviderTimes(msgspec.Struct, frozen=True):
    """CPU time of each round in all threads of the process."""

    cpu_s: list[float]


def main() -> None:
    """Run the job of standard input."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=ProviderJob)
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(_run(job))))


async def _run(job: ProviderJob) -> ProviderTimes:
    url = job.url if job.provider == "openai" else job.url.removesuffix("/v1")
    settings = ModelSettings(base_url=url, key="none", window_tokens=_WINDOW_TOKENS)
    model = open_model(f"{job.provider}:bench", settings)
    ends_s = [time.process_time()]
    looks = look(lambda: ends_s.append(time.process_time()), lambda: None, seen=_SEEN)
    async with await SqliteStore.open(Path(job.folder)) as store:
        session = await Session.start(store, ConversationId("conv_bench"), HEADER, SystemClock(), RandomIds())
        await make_bench_turns(session, model, looks, Path(job.folder), prune=_NEVER).run("Look at all places.")
    await model.close()
    # The first round opens the connection and imports what it needs.
    return ProviderTimes([after - before for before, after in pairwise(ends_s[1:])])


if __name__ == "__main__":
    main()
