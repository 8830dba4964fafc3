"""Extracts the trajectory of turns (decisions, results and effort per round) and pairs two trajectories."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    ModelAnswered,
    ModelCalled,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    ToolCall,
    ToolCode,
    TurnEnded,
    Usage,
    UserPrompt,
)
from timeloom.core.ids import CallId, TurnId
from timeloom.core.payload import Text
from timeloom.core.timeline import NO_TURN, Entry, microseconds_between

ReadText = Callable[[Text], Awaitable[str]]
"""Returns a text; a reference is read from the store."""

ResultOrigin = Literal["", "recorded", "live", "run", "not_recorded"]
"""The origin of a call's result: the record, the live tool, a `react.` tool run on the fork, or no result."""

PairVerdict = Literal["same", "differs", "only_recorded", "only_rerun"]


class CallTrace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call that the model requested; `params` is JSON with sorted keys."""

    tool_call_id: CallId
    tool_id: str
    params: str
    code: str = ""
    failed: bool = False
    result: ResultOrigin = ""

    def is_same_call(self, other: "CallTrace") -> bool:
        """Return whether the other is a call of the same tool with the same parameters and code."""
        return (self.tool_id, self.params, self.code) == (other.tool_id, other.params, other.code)


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """The effort of some rounds: requests, calls, token usage and model time."""

    requests: int = 0
    calls: int = 0
    usage: Usage = Usage()
    model_ms: int = 0

    def __add__(self, other: "Effort") -> "Effort":
        names = Usage.__struct_fields__
        return Effort(
            requests=self.requests + other.requests,
            calls=self.calls + other.calls,
            usage=Usage(**{name: getattr(self.usage, name) + getattr(other.usage, name) for name in names}),
            model_ms=self.model_ms + other.model_ms,
        )


class RoundTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A round: its calls or its answer, and its effort."""

    round: int
    calls: tuple[CallTrace, ...] = ()
    answer: str = ""
    effort: Effort = Effort()

    def is_same_decision(self, other: "RoundTrace") -> bool:
        """Return whether the model decided the same."""
        same = len(self.calls) == len(other.calls) and all(map(CallTrace.is_same_call, self.calls, other.calls))
        return same and self.answer == other.answer


class TurnTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, or its part after a fork point; `ended` is empty while it is open, `end_text` explains the end."""

    turn_id: TurnId
    prompt: str = ""
    rounds: tuple[RoundTrace, ...] = ()
    ended: str = ""
    end_text: str = ""


class RoundPair(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded round and the re-run round with the same number."""

    round: int
    verdict: PairVerdict
    recorded: RoundTrace | None = None
    rerun: RoundTrace | None = None


class TurnPair(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as it was recorded and as it was run again."""

    turn_id: TurnId
    prompt: str
    verdict: PairVerdict
    recorded_end: str
    rerun_end: str
    rerun_end_text: str
    """The explanation of that end, such as why the re-run was interrupted."""
    rounds: tuple[RoundPair, ...]


async def extract_trajectory(entries: Iterable[Entry], text: ReadText) -> list[TurnTrace]:
    """Return the turns of these entries in order."""
    turns: dict[TurnId, _TurnCollector] = {}
    for entry in entries:
        if entry.turn_id != NO_TURN:
            turn = turns.setdefault(entry.turn_id, _TurnCollector(entry.turn_id))
            await turn.add(entry, text)
    return [turn.to_trace() for turn in turns.values() if turn.rounds or turn.prompt or turn.ended]


def to_canonical_json(params: str) -> str:
    """Return the parameters with sorted keys, so that equal parameters are equal texts."""
    return msgspec.json.encode(msgspec.json.decode(params), order="sorted").decode()


def pair_turns(recorded: Sequence[TurnTrace], rerun: Sequence[TurnTrace]) -> tuple[TurnPair, ...]:
    """Pair the turns of both trajectories by their ids, recorded turns first."""
    again = {turn.turn_id: turn for turn in rerun}
    pairs = [_pair_turn(turn, again.pop(turn.turn_id, None)) for turn in recorded]
    return (*pairs, *(_pair_turn(None, turn) for turn in again.values()))


def total_effort(turns: Iterable[TurnTrace]) -> Effort:
    """Return the total effort of the turns."""
    return sum((made.effort for turn in turns for made in turn.rounds), Effort())


class _RoundCollector(msgspec.Struct):
    round: int
    calls: list[CallTrace] = []
    answer: str = ""
    requests: int = 0
    effort: Effort = Effort()
    asked_ts: str = ""

    def to_trace(self) -> RoundTrace:
        effort = self.effort + Effort(requests=self.requests, calls=len(self.calls))
        return RoundTrace(round=self.round, calls=tuple(self.calls), answer=self.answer, effort=effort)


class _TurnCollector:
    """Collects the entries of one turn."""

    def __init__(self, turn_id: TurnId) -> None:
        self._id = turn_id
        self._codes: dict[CallId, str] = {}
        self._end_text = ""
        self.ended = ""
        self.prompt = ""
        self.rounds: dict[int, _RoundCollector] = {}

    def to_trace(self) -> TurnTrace:
        rounds = tuple(one.to_trace() for one in self.rounds.values())
        return TurnTrace(turn_id=self._id, prompt=self.prompt, rounds=rounds, ended=self.ended, end_text=self._end_text)

    async def add(self, entry: Entry, text: ReadText) -> None:
        match entry.block:
            case UserPrompt() as block:
                self.prompt = await text(block.text)
            case TurnEnded(reason=reason, text=said):
                self.ended, self._end_text = reason, said
            case ToolCode() as block:
                self._add_code(block.tool_call_id, await text(block.text))
            case ToolCall() as block:
                await self._add_call(block, text)
            case Completion() as block:
                self._current().answer = await text(block.text)
            case _:
                self._add_step(entry.block, entry.ts)

    def _add_step(self, block: AnyBlock, ts: str) -> None:
        match block:
            case RoundStarted(round=number):
                self._round(number)
            case ModelCalled(purpose="decision" | "compaction", round=number):
                asked = self._round(number)
                asked.requests += 1
                asked.asked_ts = ts
            case ModelAnswered(purpose="decision" | "compaction", round=number) as answer:
                asked = self._round(number)
                took_ms = microseconds_between(asked.asked_ts or ts, ts) // 1000
                asked.effort += Effort(usage=answer.usage, model_ms=took_ms)
            case ResultDigest() | ResultStatus() as result:
                self._add_result(result)
            case _:
                pass

    async def _add_call(self, block: ToolCall, text: ReadText) -> None:
        call = CallTrace(
            tool_call_id=block.tool_call_id,
            tool_id=block.tool_id,
            params=to_canonical_json(await text(block.params)),
            code=self._codes.get(block.tool_call_id, ""),
        )
        self._current().calls.append(call)

    def _add_code(self, call_id: CallId, code: str) -> None:
        """Add the program of a call, which stands before its call in edition 1 and after it in edition 2."""
        self._codes[call_id] = code
        calls = self._current().calls
        if calls and calls[-1].tool_call_id == call_id:
            calls[-1] = replace(calls[-1], code=code)

    def _add_result(self, result: ResultDigest | ResultStatus) -> None:
        error = result.error if isinstance(result, ResultStatus) else result.digest.error
        calls = self._current().calls
        for place, call in enumerate(calls):
            if error and call.tool_call_id == result.tool_call_id:
                calls[place] = replace(call, failed=True)

    def _current(self) -> _RoundCollector:
        return next(reversed(self.rounds.values()), None) or self._round(1)

    def _round(self, number: int) -> _RoundCollector:
        return self.rounds.setdefault(number, _RoundCollector(number))


def _pair_turn(recorded: TurnTrace | None, rerun: TurnTrace | None) -> TurnPair:
    either = recorded or rerun
    assert either is not None
    before = {made.round: made for made in recorded.rounds} if recorded else {}
    again = {made.round: made for made in rerun.rounds} if rerun else {}
    rounds = tuple(_pair_round(number, before.get(number), again.get(number)) for number in sorted({*before, *again}))
    verdict = _verdict(recorded is not None, rerun is not None, all(pair.verdict == "same" for pair in rounds))
    return TurnPair(
        turn_id=either.turn_id,
        prompt=either.prompt,
        verdict=verdict,
        recorded_end=recorded.ended if recorded else "",
        rerun_end=rerun.ended if rerun else "",
        rerun_end_text=rerun.end_text if rerun else "",
        rounds=rounds,
    )


def _pair_round(number: int, recorded: RoundTrace | None, rerun: RoundTrace | None) -> RoundPair:
    alike = bool(recorded and rerun and recorded.is_same_decision(rerun))
    verdict = _verdict(recorded is not None, rerun is not None, alike)
    return RoundPair(round=number, verdict=verdict, recorded=recorded, rerun=rerun)


def _verdict(recorded: bool, rerun: bool, alike: bool) -> PairVerdict:
    if recorded and rerun:
        return "same" if alike else "differs"
    return "only_recorded" if recorded else "only_rerun"
