"""Answering: what a task asks while its program runs, put to the broker, and what it tells, given to whoever hears."""

import asyncio
from dataclasses import dataclass, field

from timeloom.platform.tasks import uncancelled
from timeloom.ports.sandbox import Broker, MadeCall, Output
from timeloom.sandbox.remote.bucket_messages import Answer, Asked, Made, Mailbox, Said


@dataclass(slots=True)
class Answering:
    """The caller's end of an execution's mailbox."""

    mailbox: Mailbox
    broker: Broker
    output: Output
    made: list[MadeCall] = field(default_factory=list[MadeCall])
    _calls: "set[asyncio.Task[None]]" = field(default_factory=set["asyncio.Task[None]"])

    async def look(self) -> None:
        """Takes what has come, and sends what is answered by now."""
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
        """Cancels what is still being answered, and waits for it."""
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)

    async def _answer(self, asked: Asked) -> None:
        if asked.kind == "call":
            text = await self.broker.call(asked.subject, asked.params)
        else:
            text = await self.broker.fetch(asked.subject)
        self.mailbox.post(Answer(asked.id, text))
