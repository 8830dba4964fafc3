"""Answers a task's broker requests and forwards its output, both received through the bucket."""

import asyncio
from dataclasses import dataclass, field

from timeloom.platform.tasks import cancel_to_completion, run_to_completion
from timeloom.ports.sandbox import Broker, DelegatedCall, OutputSink
from timeloom.sandbox.remote.bucket_messages import (
    BrokerRequest,
    BrokerResponse,
    BucketChannel,
    DelegatedCallMessage,
    OutputMessage,
)


@dataclass(slots=True)
class BrokerRelay:
    """The caller's end of an execution's message channel."""

    channel: BucketChannel
    broker: Broker
    output: OutputSink
    delegated_calls: list[DelegatedCall] = field(default_factory=list[DelegatedCall])
    _calls: "set[asyncio.Task[None]]" = field(default_factory=set["asyncio.Task[None]"])

    async def process_messages(self) -> None:
        """Process the new messages and send the answers that are ready."""
        for message in await self.channel.collect():
            match message:
                case OutputMessage():
                    self.output(message.stream, message.text)
                case BrokerRequest():
                    call = asyncio.create_task(self._answer_request(message))
                    self._calls.add(call)
                    call.add_done_callback(self._calls.discard)
                case DelegatedCallMessage():
                    self.delegated_calls.append(message.call)
                case BrokerResponse():
                    raise ValueError("the task sent an answer without a request")
        await run_to_completion(self.channel.flush())

    async def cancel_requests(self) -> None:
        """Cancel the requests in progress and wait for them."""
        await cancel_to_completion(*self._calls)

    async def _answer_request(self, request: BrokerRequest) -> None:
        if request.kind == "call":
            text = await self.broker.call(request.subject, request.params)
        else:
            text = await self.broker.fetch(request.subject)
        self.channel.post(BrokerResponse(request.id, text))
