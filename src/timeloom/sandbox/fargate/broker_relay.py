"""Answers a task's broker requests and forwards its output, both received through the bucket."""

import asyncio
from dataclasses import dataclass, field

from timeloom.platform.tasks import uncancelled
from timeloom.ports.sandbox import Broker, MadeCall, Output
from timeloom.sandbox.remote.bucket_messages import Answer, Asked, Made, Mailbox, Said


@dataclass(slots=True)
class Answering:
    """The caller's end of an execution's message channel."""

    mailbox: Mailbox
    broker: Broker
    output: Output
    made: list[MadeCall] = field(default_factory=list[MadeCall])
    _calls: "set[asyncio.Task[None]]" = field(default_factory=set["asyncio.Task[None]"])

    async def look(self) -> None:
        """Process the new messages and send the answers that are ready."""
        for message in await self.mailbox.collect():
            match message:
                case Said():
                    self.output(message.stream, message.text)
                case Asked():
                    call = asyncio.create_task(self._answer(message))
                    self._calls.add(call)
                    call.add_done_callback(self._calls.discard)
                case Made():
                    self.made.append(message.call)
                case Answer():
                    raise ValueError("the task answered something that nobody asked")
        await uncancelled(self.mailbox.flush())

    async def end(self) -> None:
        """Cancel the requests in progress and wait for them."""
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)

    async def _answer(self, asked: Asked) -> None:
        if asked.kind == "call":
            text = await self.broker.call(asked.subject, asked.params)
        else:
            text = await self.broker.fetch(asked.subject)
        self.mailbox.post(Answer(asked.id, text))
