"""Answers a program in the task: runs delegated tools there and forwards everything else to the caller."""

import asyncio
import itertools
import logging
from dataclasses import dataclass, field
from typing import Literal

from timeloom.sandbox.remote.bucket_messages import (
    BrokerRequest,
    BrokerResponse,
    BucketChannel,
    DelegatedCallMessage,
    OutputMessage,
)
from timeloom.sandbox.remote.cloud import CloudError
from timeloom.sandbox.remote.tool_loader import TaskToolRunner

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class TaskBroker:
    """Broker of a program in the task; `exchange_messages` must run beside it to reach the caller."""

    channel: BucketChannel
    tools: TaskToolRunner
    poll_s: float
    _request_ids: "itertools.count[int]" = field(default_factory=itertools.count)
    _pending: "dict[int, asyncio.Future[str]]" = field(default_factory=dict[int, "asyncio.Future[str]"])

    async def call(self, tool_id: str, params: str) -> str:
        """Return the answer of a tool: of a delegated one in this task, otherwise from the caller."""
        if self.tools.can_call(tool_id):
            answer = await self.tools.call(tool_id, params, lambda call: self.channel.post(DelegatedCallMessage(call)))
            # The caller must know of the call before the program can act on its answer.
            await self.channel.flush()
            return answer
        return await self._ask_caller("call", tool_id, params)

    async def fetch(self, path: str) -> str:
        """Return the content at a path of the conversation, which only the caller has."""
        return await self._ask_caller("fetch", path)

    def output(self, stream: Literal["stdout", "stderr"], text: str, /) -> None:
        """Send the program's output to the caller."""
        self.channel.post(OutputMessage(stream, text))

    async def exchange_messages(self) -> None:
        """Send and receive messages until cancelled; retry after failures."""
        while True:
            try:
                await self._exchange_once()
            except CloudError as error:
                _logger.warning("could not exchange messages with the caller, retrying: %s", error)
            await asyncio.sleep(self.poll_s)

    async def _exchange_once(self) -> None:
        await self.channel.flush()
        for message in await self.channel.collect() if self._pending else []:
            if isinstance(message, BrokerResponse) and (waiting := self._pending.pop(message.id, None)):
                waiting.set_result(message.text)

    async def _ask_caller(self, kind: Literal["call", "fetch"], subject: str, params: str = "") -> str:
        number = next(self._request_ids)
        waiting = self._pending[number] = asyncio.get_running_loop().create_future()
        self.channel.post(BrokerRequest(number, kind, subject, params))
        try:
            return await waiting
        finally:
            self._pending.pop(number, None)
