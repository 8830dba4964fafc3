"""Stream checks: what an endpoint must do with any request, and what its replies must bear on the way."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final

import msgspec

from timeloom.core.policy.read_reply import Reply, read_reply
from timeloom.core.stream.channels import ChannelParser, coalesce
from timeloom.ports.model import Finished, Model, ModelRequest, TextPiece

GIANT_CHARS: Final = 1_000_000
"""How much text before a reply must not change what is read of it."""

CUTS: Final = 100
"""At how many places a reply is cut."""


class StreamCheck(msgspec.Struct, frozen=True):
    """A check by name, whether it passed, and what was seen."""

    name: str
    passed: bool
    seen: str = ""


class Heard(msgspec.Struct, frozen=True):
    """A reply in the pieces in which it came."""

    pieces: tuple[str, ...]
    finished: Finished | None

    @property
    def text(self) -> str:
        """The whole reply."""
        return "".join(self.pieces)


async def ask(model: Model, request: ModelRequest) -> Heard:
    """What the model answers; raises `ModelError` where it does not."""
    pieces: list[str] = []
    finished = None
    async with aclosing(model.stream(request)) as events:
        async for event in events:
            if isinstance(event, TextPiece):
                pieces.append(event.text)
            elif isinstance(event, Finished):
                finished = event
    return Heard(tuple(pieces), finished)


async def stream_checks(model: Model, request: ModelRequest) -> list[StreamCheck]:
    """All checks, one after the other; five calls are made."""
    heard = await ask(model, request)
    found = [
        StreamCheck("comes in pieces", len(heard.pieces) > 1, f"{len(heard.pieces)} pieces"),
        StreamCheck("says why it ended", _ended(heard), heard.finished.stop_reason if heard.finished else "no end"),
        StreamCheck("reports its usage", _reported(heard), _usage(heard)),
        StreamCheck("same however it is cut", _same_in_pieces(heard.text)),
        StreamCheck("a cut is noticed", *_cut_is_noticed(heard.text)),
        StreamCheck("one giant piece", _giant_piece(heard.text)),
    ]
    for name, check in _LIVE:
        found.append(StreamCheck(name, *await check(model, request)))
    return found


def _ended(heard: Heard) -> bool:
    return heard.finished is not None and heard.finished.stop_reason in ("end", "stop_sequence", "max_tokens")


def _reported(heard: Heard) -> bool:
    return heard.finished is not None and heard.finished.usage_reported


def _usage(heard: Heard) -> str:
    usage = heard.finished.usage if heard.finished else None
    return f"{usage.input_tokens} in, {usage.output_tokens} out" if usage else "none"


def _same_in_pieces(text: str) -> bool:
    """One character at a time gives what the whole gives."""
    whole, single = ChannelParser(), ChannelParser()
    events = [event for char in text for event in single.feed(char)] + list(single.close())
    return coalesce(events) == coalesce([*whole.feed(text), *whole.close()])


def _cut_is_noticed(text: str) -> tuple[bool, str]:
    """No beginning of the reply passes for another decision than the one that was meant."""
    meant = read_reply(text).decisions
    step = max(1, len(text) // CUTS)
    places = range(0, len(text), step)
    wrong = [at for at in places if not _harmless(read_reply(text[:at]), meant)]
    return not wrong, f"{len(places)} cuts" if not wrong else f"cut at {wrong[0]} it reads as another decision"


def _harmless(cut: Reply, meant: tuple[object, ...]) -> bool:
    return bool(cut.faults) or not cut.decisions or cut.decisions == meant


def _giant_piece(text: str) -> bool:
    """The reply behind a very long thought, all in one piece, is read as it would be by itself."""
    long = f"<channel:thinking>\n{'so it is ' * (GIANT_CHARS // 9)}\n</channel:thinking>\n{text}"
    return read_reply(long).decisions == read_reply(text).decisions


async def _given_up(model: Model, request: ModelRequest) -> tuple[bool, str]:
    """A reply that nobody wants any more does not spoil the next one."""
    async with aclosing(model.stream(request)) as events:
        await anext(events)
    heard = await ask(model, request)
    return heard.finished is not None and bool(heard.text), f"{len(heard.text)} characters after it"


async def _together(model: Model, request: ModelRequest) -> tuple[bool, str]:
    """Two requests at once are both answered, each with a whole reply."""
    both = await asyncio.gather(ask(model, request), ask(model, request))
    formed = [bool(read_reply(heard.text).decisions) for heard in both]
    return all(formed), f"{sum(formed)} of 2 with a decision"


_LIVE: Final[tuple[tuple[str, Callable[[Model, ModelRequest], Awaitable[tuple[bool, str]]]], ...]] = (
    ("can be given up", _given_up),
    ("two at once", _together),
)
