"""Plays a trace through the message histories of other runtimes and sets their cache points."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench import peer
from bench.context.agent import RecordedAgent, RecordedTool
from bench.context.asks import TraceRequest
from bench.context.counting import TokenCounter
from bench.context.provider_cache import FIVE_MINUTES_S, ContentPiece
from bench.context.sent import SentRequest

PROGRAM: Final = Path(__file__).with_name("peer_side.py")

SIDES: Final = {"langgraph": "LangGraph", "agents": "OpenAI Agents SDK", "pydantic": "Pydantic AI"}


class _JobCall(msgspec.Struct, frozen=True):
    call_id: str
    tool: str
    params: msgspec.Raw
    result: str
    failed: bool


class _JobRequest(msgspec.Struct, frozen=True):
    summary: str
    said: list[str]
    text: str
    calls: list[_JobCall]


class _PeerJob(msgspec.Struct, frozen=True):
    side: str
    instructions: str
    tools: tuple[RecordedTool, ...]
    asks: list[_JobRequest]
    trim_tokens: int
    chars_per_token: float


class _CapturedBodies(msgspec.Struct, frozen=True):
    bodies: list[list[int]]
    texts: list[str]


class _BodyFunction(msgspec.Struct, frozen=True):
    name: str = ""
    arguments: str = ""


class _BodyToolCall(msgspec.Struct, frozen=True):
    function: _BodyFunction = _BodyFunction()


class _BodyMessage(msgspec.Struct, frozen=True):
    role: str
    content: str | list[dict[str, str]] | None = None
    tool_calls: list[_BodyToolCall] = []


def peer_requests(
    python: Path,
    side: str,
    asks: Sequence[TraceRequest],
    agent: RecordedAgent,
    counter: TokenCounter,
    *,
    trim_tokens: int = 0,
) -> list[SentRequest]:
    """Return the requests that the runtime sends for the trace, without cache points, because none sets any.

    Recorded summaries apply at the same place. With `trim_tokens` they do not, and LangChain's `trim_messages` keeps
    the newest messages within that limit instead.
    """
    chars = sum(len(ask.text) + sum(len(call.params) + len(call.result) for call in ask.calls) for ask in asks)
    tokens = sum(
        counter.tokens(ask.text) + sum(counter.tokens(call.params) + counter.tokens(call.result) for call in ask.calls)
        for ask in asks
    )
    job = _PeerJob(
        side, agent.instructions, agent.tools, [_to_job(ask) for ask in asks], trim_tokens, chars / max(1, tokens)
    )
    command = [str(python), "-I", "-W", "ignore", str(PROGRAM)]
    caught = msgspec.json.decode(peer.run_program(command, msgspec.json.encode(job)), type=_CapturedBodies)
    pieces = [_pieces(text, counter) for text in caught.texts]
    return [
        SentRequest(ask.at_s, tuple(piece for number in body for piece in pieces[number]))
        for ask, body in zip(asks, caught.bodies, strict=True)
    ]


def with_points_by_hand(sent: Sequence[SentRequest]) -> list[SentRequest]:
    """Return the same requests with the cache points of a careful user, all for five minutes.

    One is after the system text, one at the end, and one at the end of the previous request, so that it is always
    found.
    """
    marked: list[SentRequest] = []
    before = 0
    for one in sent:
        last = len(one.pieces) - 1
        places = {_SYSTEM_PLACE, min(before, last), last} if before > _SYSTEM_PLACE else {_SYSTEM_PLACE, last}
        marked.append(
            SentRequest(one.at_s, tuple(_with_point(piece, n in places) for n, piece in enumerate(one.pieces)))
        )
        before = last
    return marked


_SYSTEM_PLACE: Final = 1
"""The tools come first, then the system text."""


def _with_point(piece: ContentPiece, point: bool) -> ContentPiece:
    return msgspec.structs.replace(piece, lifetime_s=FIVE_MINUTES_S) if point else piece


def _to_job(ask: TraceRequest) -> _JobRequest:
    calls = [
        _JobCall(call.call_id, call.tool, msgspec.Raw(call.params.encode()), call.result, call.failed)
        for call in ask.calls
    ]
    return _JobRequest(ask.summary, ask.user_messages(), ask.text, calls)


def _pieces(text: str, counter: TokenCounter) -> list[ContentPiece]:
    """Return a message as content blocks in Anthropic's form: its text, then each call."""
    if text.startswith("["):
        return [counter.piece(text)]
    message = msgspec.json.decode(text, type=_BodyMessage)
    content = message.content or ""
    texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    texts += [call.function.name + call.function.arguments for call in message.tool_calls]
    return [counter.piece(f"{message.role}\n{one}") for one in texts if one]
