"""The requests of a client that keeps a list of messages and calls the provider itself."""

from collections.abc import Sequence

import msgspec

from bench.context.agent import RecordedAgent
from bench.context.asks import TraceCall, TraceRequest
from bench.context.counting import TokenCounter
from bench.context.provider_cache import ContentPiece
from bench.context.sent import SentRequest


def client_requests(asks: Sequence[TraceRequest], agent: RecordedAgent, counter: TokenCounter) -> list[SentRequest]:
    """Return the requests without cache points: the tools, the instructions and all messages; a summary starts anew."""
    own = [counter.piece(msgspec.json.encode(agent.tools).decode()), counter.piece(f"system\n{agent.instructions}")]
    history: list[ContentPiece] = []
    sent: list[SentRequest] = []
    for ask in asks:
        if ask.summary:
            history = [counter.piece(f"user\n{ask.summary}")]
        history += [counter.piece(f"user\n{text}") for text in ask.user_messages()]
        sent.append(SentRequest(ask.at_s, (*own, *history)))
        if ask.text:
            history.append(counter.piece(f"assistant\n{ask.text}"))
        history += [counter.piece(_call_text(call)) for call in ask.calls]
        history += [counter.piece(f"tool\n{call.result}") for call in ask.calls if call.result]
    return sent


def _call_text(call: TraceCall) -> str:
    return f"assistant\n{call.tool}{call.params}"
