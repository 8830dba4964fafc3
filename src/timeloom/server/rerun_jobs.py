"""Runs conversations again on forks, in background tasks of the server."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Self

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.runtime.rerun.rerun import OpenTurns, Rerun, Rerunning, rerun
from timeloom.server.conversation_factory import ServerOpening
from timeloom.server.rate_limit import Limits

_logger = logging.getLogger(__name__)


class Reruns:
    """Runs conversations again with the selectable models; use it as a context manager."""

    def __init__(
        self,
        opening: ServerOpening,
        models: Mapping[str, OpenTurns],
        grace_s: float,
        limits: Limits | None = None,
    ) -> None:
        self._opening = opening
        self._models = models
        self._grace_s = grace_s
        self._limits = limits or Limits()
        self._tasks: dict[asyncio.Task[Rerun], str] = {}
        """The running tasks, and the id of the principal that started each."""
        self._forks: dict[ConversationId, asyncio.Task[Rerun]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the selectable models; the server's default model comes first."""
        return tuple(self._models)

    def is_running(self, fork: ConversationId) -> bool:
        """Whether a re-run of that fork is running here."""
        return fork in self._forks

    async def start(
        self, caller: str, source: ConversationId, seq: int, model: str, most_turns: int | None
    ) -> ConversationId:
        """Start a re-run of the turns after that entry and return its fork; raise if the fork cannot be created."""
        self._need_room(caller)
        if model not in self._models:
            raise CodedError("model_unknown", f"unknown model {model[:80]!r}; choose one of {', '.join(self._models)}")
        made: asyncio.Future[ConversationId] = asyncio.get_running_loop().create_future()

        def tell(fork: ConversationId) -> None:
            self._forks[fork] = task
            made.set_result(fork)

        opening = self._opening
        how = Rerunning(
            store=opening.store,
            data_dir=opening.setting.data_dir,
            open_turns=self._models[model],
            clock=opening.clock,
            ids=opening.ids,
            keep=True,
            most_turns=most_turns,
            tell=tell,
        )
        task = asyncio.create_task(rerun(how, source, seq), name=f"running {source} again")
        self._tasks[task] = caller
        task.add_done_callback(lambda _: self._ended(task, made))
        await asyncio.wait({task, made}, return_when=asyncio.FIRST_COMPLETED)
        if not made.done():
            if task.cancelled():
                raise CodedError("server_closing", "the server is shutting down")
            task.result()
        return made.result()

    async def stop(self, fork: ConversationId) -> bool:
        """Cancel the re-run of that fork, which ends its turn; return whether there was one."""
        task = self._forks.get(fork)
        if task:
            task.cancel()
            await asyncio.wait({task})
        return task is not None

    async def close(self) -> None:
        """Wait `grace_s` seconds for running re-runs, then cancel the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._grace_s)
        for task in (left := set(self._tasks)):
            task.cancel()
        if left:
            await asyncio.wait(left)

    def _need_room(self, caller: str) -> None:
        own, most, all_most = Counter(self._tasks.values())[caller], self._limits.reruns, self._limits.all_reruns
        if own >= most:
            raise CodedError(
                "reruns_busy",
                f"you already have {own} running re-runs, which is the limit; wait until one ends, stop one, or ask "
                "the operator to raise server.limits.reruns",
            )
        if len(self._tasks) >= all_most:
            raise CodedError(
                "reruns_busy",
                f"{len(self._tasks)} re-runs are running on this server, which is the limit; try again later, or ask "
                "the operator to raise server.limits.all_reruns",
            )

    def _ended(self, task: asyncio.Task[Rerun], made: "asyncio.Future[ConversationId]") -> None:
        del self._tasks[task]
        error = None if task.cancelled() else task.exception()
        if not made.done():
            # `start` raises the error to its caller.
            return
        fork = made.result()
        self._forks.pop(fork, None)
        if error:
            _logger.warning("re-run failed", exc_info=error, extra={"fields": {"conversation_id": fork}})
