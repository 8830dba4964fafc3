"""Checks the streaming behaviour of an endpoint, and that its replies parse however they are cut."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final

import msgspec

from timeloom.core.policy.read_reply import Reply, read_reply
from timeloom.core.stream.channels import ChannelParser, coalesce
from timeloom.ports.model import Finished, Model, ModelRequest, TextPiece

GIANT_CHARS: Final = 1_000_000
"""Length of the text that one check puts before a reply, which must not change how the reply parses."""

CUTS: Final = 100
"""Number of positions at which a reply is cut."""


class StreamCheck(msgspec.Struct, frozen=True):
    """The result of a check: its name, whether it passed, and the observation."""

    name: str
    passed: bool
    seen: str = ""


class Heard(msgspec.Struct, frozen=True):
    """A reply in the pieces in which it arrived."""

    pieces: tuple[str, ...]
    finished: Finished | None

    @property
    def text(self) -> str:
        """The whole text of the reply."""
        return "".join(self.pieces)


async def ask(model: Model, request: ModelRequest) -> Heard:
    """Send the request and return the reply; raises `ModelError` if the model fails."""
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
    """Run all checks in sequence. They make five model calls."""
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
    """Whether parsing one character at a time gives the same events as parsing the whole."""
    whole, single = ChannelParser(), ChannelParser()
    events = [event for char in text for event in single.feed(char)] + list(single.close())
    return coalesce(events) == coalesce([*whole.feed(text), *whole.close()])


def _cut_is_noticed(text: str) -> tuple[bool, str]:
    """Check that no prefix of the reply parses as a different decision."""
    meant = read_reply(text).decisions
    step = max(1, len(text) // CUTS)
    places = range(0, len(text), step)
    wrong = [at for at in places if not _harmless(read_reply(text[:at]), meant)]
    return not wrong, f"{len(places)} cuts" if not wrong else f"cut at {wrong[0]} it reads as another decision"


def _harmless(cut: Reply, meant: tuple[object, ...]) -> bool:
    return bool(cut.faults) or not cut.decisions or cut.decisions == meant


def _giant_piece(text: str) -> bool:
    """Whether the reply after a very long thought, in one piece, parses as it does alone."""
    long = f"<channel:thinking>\n{'so it is ' * (GIANT_CHARS // 9)}\n</channel:thinking>\n{text}"
    return read_reply(long).decisions == read_reply(text).decisions


async def _given_up(model: Model, request: ModelRequest) -> tuple[bool, str]:
    """Check that the next reply is complete after one was abandoned."""
    async with aclosing(model.stream(request)) as events:
        await anext(events)
    heard = await ask(model, request)
    return heard.finished is not None and bool(heard.text), f"{len(heard.text)} characters after it"


async def _together(model: Model, request: ModelRequest) -> tuple[bool, str]:
    """Check that two concurrent requests both get a complete reply."""
    both = await asyncio.gather(ask(model, request), ask(model, request))
    formed = [bool(read_reply(heard.text).decisions) for heard in both]
    return all(formed), f"{sum(formed)} of 2 with a decision"


_LIVE: Final[tuple[tuple[str, Callable[[Model, ModelRequest], Awaitable[tuple[bool, str]]]], ...]] = (
    ("can be given up", _given_up),
    ("two at once", _together),
)
