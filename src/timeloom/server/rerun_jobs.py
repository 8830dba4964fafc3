"""Runs conversations again on forks, in background tasks of the server."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Self

from timeloom.agent.conversation_factory import ConversationFactory
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.platform.tasks import cancel_and_wait
from timeloom.runtime.rerun.rerun import RerunResult, RerunSettings, TurnRunnerFactory, rerun_conversation
from timeloom.server.rate_limit import RateLimits

_logger = logging.getLogger(__name__)


class RerunJobs:
    """Runs conversations again with the selectable models; use it as a context manager."""

    def __init__(
        self,
        factory: ConversationFactory,
        models: Mapping[str, TurnRunnerFactory],
        grace_s: float,
        limits: RateLimits | None = None,
    ) -> None:
        self._factory = factory
        self._models = models
        self._grace_s = grace_s
        self._limits = limits or RateLimits()
        self._tasks: dict[asyncio.Task[RerunResult], str] = {}
        """The running tasks, and the id of the principal that started each."""
        self._forks: dict[ConversationId, asyncio.Task[RerunResult]] = {}

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
        self, principal_id: str, source: ConversationId, seq: int, model: str, most_turns: int | None
    ) -> ConversationId:
        """Start a re-run of the turns after that entry and return its fork; raise if the fork cannot be created."""
        self._check_capacity(principal_id)
        if model not in self._models:
            raise CodedError("model_unknown", f"unknown model {model[:80]!r}; choose one of {', '.join(self._models)}")
        fork_created: asyncio.Future[ConversationId] = asyncio.get_running_loop().create_future()

        def on_fork(fork: ConversationId) -> None:
            self._forks[fork] = task
            fork_created.set_result(fork)

        factory = self._factory
        settings = RerunSettings(
            store=factory.store,
            data_dir=factory.setting.data_dir,
            make_turn_runner=self._models[model],
            clock=factory.clock,
            ids=factory.ids,
            keep=True,
            max_turns=most_turns,
            on_fork=on_fork,
        )
        task = asyncio.create_task(rerun_conversation(settings, source, seq), name=f"running {source} again")
        self._tasks[task] = principal_id
        task.add_done_callback(lambda _: self._on_task_done(task, fork_created))
        await asyncio.wait({task, fork_created}, return_when=asyncio.FIRST_COMPLETED)
        if not fork_created.done():
            if task.cancelled():
                raise CodedError("server_closing", "the server is shutting down")
            task.result()
        return fork_created.result()

    async def stop(self, fork: ConversationId) -> bool:
        """Cancel the re-run of that fork, which ends its turn; return whether there was one."""
        task = self._forks.get(fork)
        if task:
            await cancel_and_wait(task)
        return task is not None

    async def close(self) -> None:
        """Wait `grace_s` seconds for running re-runs, then cancel the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._grace_s)
        await cancel_and_wait(*self._tasks)

    def _check_capacity(self, principal_id: str) -> None:
        own, most, all_most = Counter(self._tasks.values())[principal_id], self._limits.reruns, self._limits.all_reruns
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

    def _on_task_done(self, task: asyncio.Task[RerunResult], fork_created: "asyncio.Future[ConversationId]") -> None:
        del self._tasks[task]
        error = None if task.cancelled() else task.exception()
        if not fork_created.done():
            # `start` raises the error to its caller.
            return
        fork = fork_created.result()
        self._forks.pop(fork, None)
        if error:
            _logger.warning("re-run failed", exc_info=error, extra={"fields": {"conversation_id": fork}})
