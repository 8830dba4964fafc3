"""Answers a program in the task: runs delegated tools there and forwards everything else to the caller."""

import asyncio
import itertools
import logging
from dataclasses import dataclass, field
from typing import Literal

from timeloom.sandbox.remote.bucket_messages import Answer, Asked, Made, Mailbox, Said
from timeloom.sandbox.remote.cloud import CloudError
from timeloom.sandbox.remote.tool_loader import Toolbox

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Relay:
    """Broker of a program in the task; `exchange_messages` must run beside it to reach the caller."""

    mailbox: Mailbox
    toolbox: Toolbox
    poll_s: float
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _asked: "dict[int, asyncio.Future[str]]" = field(default_factory=dict[int, "asyncio.Future[str]"])

    async def call(self, tool_id: str, params: str) -> str:
        """Return the answer of a tool: of a delegated one in this task, otherwise from the caller."""
        if self.toolbox.has(tool_id):
            answer = await self.toolbox.call(tool_id, params, lambda call: self.mailbox.post(Made(call)))
            # The caller must know of the call before the program can act on its answer.
            await self.mailbox.flush()
            return answer
        return await self._ask("call", tool_id, params)

    async def fetch(self, path: str) -> str:
        """Return the content at a path of the conversation, which only the caller has."""
        return await self._ask("fetch", path)

    def output(self, stream: Literal["stdout", "stderr"], text: str, /) -> None:
        """Send the program's output to the caller."""
        self.mailbox.post(Said(stream, text))

    async def carry(self) -> None:
        """Send and receive messages until cancelled; retry after failures."""
        while True:
            try:
                await self._carry_once()
            except CloudError as error:
                _logger.warning("could not exchange messages with the caller, retrying: %s", error)
            await asyncio.sleep(self.poll_s)

    async def _carry_once(self) -> None:
        await self.mailbox.flush()
        for message in await self.mailbox.collect() if self._asked else []:
            if isinstance(message, Answer) and (waiting := self._asked.pop(message.id, None)):
                waiting.set_result(message.text)

    async def _ask(self, kind: Literal["call", "fetch"], subject: str, params: str = "") -> str:
        number = next(self._numbers)
        waiting = self._asked[number] = asyncio.get_running_loop().create_future()
        self.mailbox.post(Asked(number, kind, subject, params))
        try:
            return await waiting
        finally:
            self._asked.pop(number, None)
