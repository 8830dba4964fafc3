"""Checks the streaming behaviour of an endpoint, and that its replies parse however they are cut."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final

import msgspec

from timeloom.core.policy.convert_params import read_required
from timeloom.core.policy.read_native import read_native_reply
from timeloom.core.policy.read_reply import ParsedReply, read_reply
from timeloom.core.stream.channels import ChannelParser, coalesce, declared_channels
from timeloom.core.stream.decision import CallToolDecision
from timeloom.core.stream.native_reply import NativeCall, NativeReply
from timeloom.ports.model import FinishEvent, Model, ModelRequest, TextPiece, ToolCallPiece
from timeloom.testing.conformance.scenes import tool_forms

GIANT_CHARS: Final = 1_000_000
"""Length of the text that one check puts before a reply, which must not change how the reply parses."""

CUTS: Final = 100
"""Number of positions at which a reply is cut."""


class StreamCheck(msgspec.Struct, frozen=True):
    """The result of a check: its name, whether it passed, and the observation."""

    name: str
    passed: bool
    seen: str = ""


class StreamedReply(msgspec.Struct, frozen=True):
    """A reply in the pieces in which it arrived."""

    pieces: tuple[str, ...]
    finished: FinishEvent | None
    calls: tuple[NativeCall, ...] = ()
    call_pieces: int = 0
    """Number of pieces in which the native tool calls arrived."""

    @property
    def text(self) -> str:
        """The whole text of the reply."""
        return "".join(self.pieces)

    @property
    def native(self) -> NativeReply:
        """The reply as one of native tool calling."""
        return NativeReply(self.text, self.calls)


async def fetch_reply(model: Model, request: ModelRequest) -> StreamedReply:
    """Send the request and return the reply; raises `ModelError` if the model fails."""
    pieces: list[str] = []
    calls: dict[int, list[ToolCallPiece]] = {}
    finished = None
    async with aclosing(model.stream(request)) as events:
        async for event in events:
            if isinstance(event, TextPiece):
                pieces.append(event.text)
            elif isinstance(event, ToolCallPiece):
                calls.setdefault(event.index, []).append(event)
            elif isinstance(event, FinishEvent):
                finished = event
    tool_ids = {one.name: one.tool_id for one in request.tools}
    made = [
        NativeCall(one[0].name, "".join(piece.text for piece in one), tool_ids.get(one[0].name, ""))
        for one in calls.values()
    ]
    return StreamedReply(tuple(pieces), finished, tuple(made), sum(map(len, calls.values())))


async def stream_checks(model: Model, request: ModelRequest, edition: int = 1) -> list[StreamCheck]:
    """Run all checks in sequence. They make five model calls. The request has a prompt of that edition."""
    reply = await fetch_reply(model, request)
    count = len(reply.pieces) + reply.call_pieces
    found = [
        StreamCheck("comes in pieces", count > 1, f"{count} pieces"),
        StreamCheck(
            "says why it ended", _has_stop_reason(reply), reply.finished.stop_reason if reply.finished else "no end"
        ),
        StreamCheck("reports its usage", _has_usage(reply), _usage_text(reply)),
    ]
    if not request.tools:
        # Native tool calls have no text to parse.
        found += [
            StreamCheck("same however it is cut", _is_same_in_pieces(reply.text, edition)),
            StreamCheck("a cut is noticed", *_check_cuts(reply.text, edition)),
            StreamCheck("one giant piece", _check_giant_piece(reply.text, edition)),
        ]
    for name, check in _LIVE:
        found.append(StreamCheck(name, *await check(model, request, edition)))
    return found


def _has_stop_reason(reply: StreamedReply) -> bool:
    return reply.finished is not None and reply.finished.stop_reason in ("end", "stop_sequence", "max_tokens")


def _has_usage(reply: StreamedReply) -> bool:
    return reply.finished is not None and reply.finished.usage_reported


def _usage_text(reply: StreamedReply) -> str:
    usage = reply.finished.usage if reply.finished else None
    return f"{usage.input_tokens} in, {usage.output_tokens} out" if usage else "none"


def _is_same_in_pieces(text: str, edition: int) -> bool:
    """Whether parsing one character at a time gives the same events as parsing the whole."""
    whole, single = (ChannelParser(declared_channels(edition)) for _ in range(2))
    events = [event for char in text for event in single.feed(char)] + list(single.close())
    return coalesce(events) == coalesce([*whole.feed(text), *whole.close()])


def _check_cuts(text: str, edition: int) -> tuple[bool, str]:
    """Check that no prefix of the reply parses as a different decision."""
    expected = _read(text, edition).decisions
    step = max(1, len(text) // CUTS)
    places = range(0, len(text), step)
    wrong = [at for at in places if not _is_harmless(_read(text[:at], edition), expected)]
    return not wrong, f"{len(places)} cuts" if not wrong else f"cut at {wrong[0]} it reads as another decision"


def _is_harmless(cut: ParsedReply, expected: tuple[object, ...]) -> bool:
    return bool(cut.faults) or not cut.decisions or cut.decisions == expected or _lacks_params(cut)


def _lacks_params(reply: ParsedReply) -> bool:
    """Whether a tool refuses its call, because a parameter in a channel of its own is missing."""
    calls = [one for one in reply.decisions if isinstance(one, CallToolDecision) and one.tool_id in tool_forms()]
    required = ((call, read_required(tool_forms()[call.tool_id].params_schema)) for call in calls)
    return any(not names.issubset(msgspec.json.decode(call.params)) for call, names in required)


def _read(text: str, edition: int) -> ParsedReply:
    return read_reply(text, edition=edition, tools=tool_forms(edition))


def _check_giant_piece(text: str, edition: int) -> bool:
    """Whether the reply after a very long thought, in one piece, parses as it does alone."""
    long = f"<channel:thinking>\n{'so it is ' * (GIANT_CHARS // 9)}\n</channel:thinking>\n{text}"
    return _read(long, edition).decisions == _read(text, edition).decisions


async def _check_abandoned_reply(model: Model, request: ModelRequest, _: int) -> tuple[bool, str]:
    """Check that the next reply is complete after one was abandoned."""
    async with aclosing(model.stream(request)) as events:
        await anext(events)
    reply = await fetch_reply(model, request)
    text = reply.native.as_text()
    return reply.finished is not None and bool(text), f"{len(text)} characters after it"


async def _check_concurrent_replies(model: Model, request: ModelRequest, edition: int) -> tuple[bool, str]:
    """Check that two concurrent requests both get a complete reply."""
    both = await asyncio.gather(fetch_reply(model, request), fetch_reply(model, request))
    read = [read_native_reply(one.native) if request.tools else _read(one.text, edition) for one in both]
    formed = [bool(one.decisions) for one in read]
    return all(formed), f"{sum(formed)} of 2 with a decision"


_LIVE: Final[tuple[tuple[str, Callable[[Model, ModelRequest, int], Awaitable[tuple[bool, str]]]], ...]] = (
    ("can be given up", _check_abandoned_reply),
    ("two at once", _check_concurrent_replies),
)
