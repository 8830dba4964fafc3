"""Converts a trace to the drafts that timeloom's runtime appends for each step."""

from collections.abc import Iterator

from bench.traces import Step, Trace, TraceEvent
from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    ConversationStarted,
    Digest,
    Followup,
    ModelAnswered,
    Notes,
    RangeSummary,
    ResultContent,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    Thinking,
    ToolCall,
    ToolError,
    TurnEnded,
    TurnStarted,
    Usage,
    UserPrompt,
)
from timeloom.core.ids import TurnId, make_turn_id, parse_call_id, parse_message_id
from timeloom.core.timeline import Draft

Append = list[Draft]
"""The drafts of one step, which become durable together."""

_MODEL = "recorded"


def to_appends(trace: Trace) -> list[Append]:
    """Return one append for each step of the trace."""
    writer = _DraftWriter()
    return [
        writer.step(step, first=at == 0, last=at == len(turn) - 1)
        for turn in trace.turns
        for at, step in enumerate(turn)
    ]


class _DraftWriter:
    """Counts the turns, rounds, answers and entries that blocks refer to."""

    def __init__(self) -> None:
        self._tail = 0
        self._turns: list[TurnId] = []
        self._rounds = 0
        self._answers = 0
        self._request = ""

    def step(self, step: Step, *, first: bool, last: bool) -> Append:
        blocks: list[AnyBlock] = []
        if not self._tail:
            blocks.append(ConversationStarted(tenant="bench", project="bench", user="somebody", bundle="agent"))
        if first:
            self._turns.append(make_turn_id(1_760_000_000_000 + len(self._turns), len(self._turns)))
            self._rounds = self._answers = 0
            blocks.append(TurnStarted(n=len(self._turns)))
        if step[0].request:
            blocks += self._reply(step)
        else:
            for event in step:
                blocks += self._external_blocks(event)
        if last:
            blocks.append(TurnEnded(reason="completed"))
        self._tail += len(blocks)
        return [Draft(self._turns[-1], step[-1].ts, block) for block in blocks]

    def _reply(self, step: Step) -> Iterator[AnyBlock]:
        """Yield the blocks of a model's reply; the first part includes the receipt of the request."""
        begins = step[0].request != self._request
        self._request = step[0].request
        if begins:
            self._rounds += 1
            yield RoundStarted(round=self._rounds)
        for at, event in enumerate(step):
            yield from self._reply_blocks(event, next((later.call_id for later in step[at:] if later.call_id), ""))
        if begins:
            yield ModelAnswered(round=self._rounds, model=_MODEL, stop_reason="end", usage=_usage(step[-1]))

    def _reply_blocks(self, event: TraceEvent, next_call: str) -> Iterator[AnyBlock]:
        if event.kind == "thinking":
            yield Thinking(round=max(1, self._rounds), text=event.text)
        elif event.kind == "call":
            yield ToolCall(tool_id=event.tool, tool_call_id=parse_call_id(event.call_id), params=event.text)
        elif next_call and event.text:
            yield Notes(tool_call_id=parse_call_id(next_call), text=event.text)
        elif not next_call:
            self._answers += 1
            yield Completion(text=event.text, n=self._answers)

    def _external_blocks(self, event: TraceEvent) -> Iterator[AnyBlock]:
        match event.kind:
            case "user":
                yield UserPrompt(text=event.text)
            case "followup":
                yield Followup(message_id=parse_message_id(f"message_{self._tail}"), text=event.text)
            case "summary":
                covered = tuple(self._turns)
                yield RangeSummary(covered_turn_ids=covered, text=event.text, first_seq=2, last_seq=self._tail)
            case "result":
                yield from self._result_blocks(event)
            case "thinking" | "text" | "call":
                yield from self._reply_blocks(event, event.call_id)

    def _result_blocks(self, event: TraceEvent) -> Iterator[AnyBlock]:
        call = parse_call_id(event.call_id)
        if event.failed:
            error = ToolError(code="tool_failed", message=event.text[:200])
            yield ResultStatus(tool_call_id=call, text=event.text, mime="text/plain", error=error)
            return
        path = f"tc:{self._turns[-1]}.{call}.result"
        size_bytes = len(event.text.encode())
        digest = Digest(artifact_path=path, mime="text/plain", size_bytes=size_bytes)
        yield ResultDigest(tool_call_id=call, digest=digest)
        yield ResultContent(tool_call_id=call, artifact_path=path, mime="text/plain", text=event.text)


def _usage(event: TraceEvent) -> Usage:
    return Usage(
        input_tokens=event.tokens.input,
        cache_read_tokens=event.tokens.cache_read,
        cache_write_tokens=event.tokens.cache_write,
        output_tokens=event.tokens.output,
    )
