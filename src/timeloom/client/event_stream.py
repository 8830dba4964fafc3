"""Reads server-sent events and waits between attempts to reconnect."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import httpx2

from timeloom.client.decode import decode
from timeloom.client.types import EVENT_TYPES, EventData

MAX_WAIT_S: Final = 4.0


class ServerEvent(NamedTuple):
    """An event: its data, and the id of the block after which a new stream continues; empty if it has none."""

    data: EventData
    id: str


class Backoff:
    """Waits longer after each attempt that brought no event."""

    def __init__(self, first_s: float) -> None:
        self._first_s = self._next_s = first_s

    def reset(self) -> None:
        """Begin with a short wait again."""
        self._next_s = self._first_s

    async def wait(self) -> None:
        """Wait before the next attempt."""
        await asyncio.sleep(self._next_s)
        self._next_s = min(self._next_s * 2, MAX_WAIT_S)


async def read_events(response: httpx2.Response) -> AsyncIterator[ServerEvent]:
    """Yield the events of the response whose names are known; newer servers may send others."""
    name, event_id, data = "", "", list[str]()
    async for line in response.aiter_lines():
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                name = value
            case "id":
                event_id = value
            case "data":
                data.append(value)
            case "" if not line:
                if data and (kind := EVENT_TYPES.get(name)):
                    yield ServerEvent(decode("\n".join(data), kind), event_id)
                name, event_id, data = "", "", []
            case _:
                # A comment begins with a colon and keeps the connection open.
                pass
