"""Converts a trace to its model requests, each with preceding events, its reply and its time."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from bench.traces import Trace, TraceEvent, TraceTokens

INVENTED_STEP_S: Final = 15.0
"""Time between two steps of a trace whose events all have the same time."""

INVENTED_PAUSE_S: Final = 400.0
"""Time before the next user message in such a trace: longer than five minutes, shorter than an hour."""


class TraceCall(msgspec.Struct, frozen=True):
    """A tool call with its result; the result may be missing."""

    call_id: str
    tool: str
    params: str
    result: str = ""
    failed: bool = False
    done_s: float = 0.0


class TraceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One model request; `before` contains the user messages and summaries since the previous request."""

    at_s: float
    before: tuple[TraceEvent, ...]
    thinking: str
    text: str
    calls: tuple[TraceCall, ...]
    tokens: TraceTokens

    @property
    def summary(self) -> str:
        """The summary of everything before this request, if there is one."""
        return next((event.text for event in reversed(self.before) if event.kind == "summary"), "")

    def user_messages(self) -> list[str]:
        """Return the user messages before this request."""
        return [event.text for event in self.before if event.kind in ("user", "followup")]


def to_asks(trace: Trace) -> list[TraceRequest]:
    """Return the requests of the trace in order; times are seconds since 1970."""
    steps = list(trace.steps())
    times_s = _times_s(steps)
    events = [(event, at_s) for step, at_s in zip(steps, times_s, strict=True) for event in step]
    results = {event.call_id: (event, at_s) for event, at_s in events if event.kind == "result"}
    asks: list[TraceRequest] = []
    seen: set[str] = set()
    before: list[TraceEvent] = []
    event_s = times_s[0] if times_s else 0.0
    for event, at_s in events:
        if not event.request:
            event_s = at_s
            if event.kind != "result":
                before.append(event)
        elif event.request not in seen:
            seen.add(event.request)
            own = [one for one, _ in events if one.request == event.request]
            asks.append(_to_ask(own, tuple(before), event_s, results))
            before.clear()
    return asks


def recorded_lengths(asks: Sequence[TraceRequest]) -> list[int]:
    """Return the billed tokens of each request; empty if not all were recorded, as in synthetic traces."""
    lengths = [ask.tokens.input + ask.tokens.cache_read + ask.tokens.cache_write for ask in asks]
    return lengths if len(set(lengths)) > 1 and all(lengths) else []


def _to_ask(
    own: Sequence[TraceEvent], before: tuple[TraceEvent, ...], at_s: float, results: dict[str, tuple[TraceEvent, float]]
) -> TraceRequest:
    calls: list[TraceCall] = []
    for event in own:
        if event.kind == "call":
            result, done_s = results.get(event.call_id, (TraceEvent("result", "", event.ts), at_s))
            calls.append(TraceCall(event.call_id, event.tool, event.text, result.text, result.failed, done_s))
    return TraceRequest(
        at_s=at_s,
        before=before,
        thinking=_join_texts(event.text for event in own if event.kind == "thinking"),
        text=_join_texts(event.text for event in own if event.kind == "text"),
        calls=tuple(calls),
        tokens=own[-1].tokens,
    )


def _join_texts(texts: Iterable[str]) -> str:
    return "\n\n".join(text.strip() for text in texts if text.strip())


def _times_s(steps: Sequence[tuple[TraceEvent, ...]]) -> list[float]:
    """Return the time of each step; generated if all steps of the trace have the same time."""
    recorded = [datetime.fromisoformat(step[-1].ts).timestamp() for step in steps]
    if len(set(recorded)) > 1:
        return recorded
    times_s: list[float] = []
    now_s = recorded[0] if recorded else 0.0
    for step in steps:
        now_s += INVENTED_PAUSE_S if times_s and step[0].kind == "user" else INVENTED_STEP_S
        times_s.append(now_s)
    return times_s
