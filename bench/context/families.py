"""Generates sessions of several shapes from seeds: their calls, sizes and pauses; nothing is copied from recordings."""

import json
import random
from bisect import bisect_left
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final

import msgspec

from bench.synthetic import code, english
from bench.traces import Step, Trace, TraceEvent, group_by_turns
from timeloom.core.tokens import estimate_tokens

SEEDS: Final = tuple(range(1, 21))
"""The seeds of the family that pruning found hardest; the bars hold for each of them."""

PAUSE_QUANTILES: Final = (
    (0.0, 2.6),
    (0.05, 3.5),
    (0.1, 4.1),
    (0.25, 5.3),
    (0.5, 8.7),
    (0.75, 19.0),
    (0.9, 38.0),
    (0.95, 105.0),
    (0.98, 175.0),
    (1.0, 194.0),
)
"""Seconds between two requests of the two recorded sessions, without the pauses over five minutes."""

_START: Final = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
_FILES: Final = tuple(
    f"src/{area}/{name}.py" for area in ("store", "views", "wire") for name in ("read", "write", "log")
)


class SessionFamily(msgspec.Struct, frozen=True, kw_only=True):
    """The ranges from which a session draws its calls, their tokens, its turns and its long pauses."""

    name: str
    calls: tuple[int, int]
    call_tokens: tuple[int, int]
    """Tokens of a call's parameters, result and remark together."""
    turns: tuple[int, int] = (1, 8)
    long_pauses: tuple[int, int] = (0, 0)
    """The number of pauses that are longer than five minutes."""
    long_minutes: tuple[float, float] = (6.0, 55.0)
    large_calls: float = 0.0
    """Share of calls with `large_tokens` instead."""
    large_tokens: tuple[int, int] = (0, 0)


SMALL_CALLS: Final = SessionFamily(name="small calls", calls=(150, 400), call_tokens=(50, 600))
SMALL_CALLS_WITH_GAPS: Final = SessionFamily(
    name="small calls, gaps of 6 to 55 minutes", calls=(150, 400), call_tokens=(50, 600), long_pauses=(2, 12)
)
OTHERS: Final = (
    SessionFamily(name="few large calls", calls=(15, 50), call_tokens=(1_500, 12_000), turns=(1, 5)),
    SessionFamily(
        name="mixed",
        calls=(60, 200),
        call_tokens=(30, 900),
        long_pauses=(0, 4),
        large_calls=0.12,
        large_tokens=(2_000, 15_000),
    ),
    SessionFamily(
        name="long user pauses",
        calls=(60, 150),
        call_tokens=(100, 2_500),
        turns=(10, 25),
        long_pauses=(8, 20),
        long_minutes=(6.0, 180.0),
    ),
    SessionFamily(name="short", calls=(8, 30), call_tokens=(50, 1_500), turns=(1, 5), long_pauses=(0, 2)),
)


def family_of(seed: int) -> SessionFamily:
    """Return the family of small calls that this seed draws from: every other seed has gaps."""
    return SMALL_CALLS if seed % 2 else SMALL_CALLS_WITH_GAPS


def generate_session(family: SessionFamily, seed: int) -> Trace:
    """Return the session of that family and seed; it is the same in every run."""
    return _Generator(family, seed).session()


class _Generator:
    def __init__(self, family: SessionFamily, seed: int) -> None:
        self._family = family
        self._seed = seed
        self._chance = random.Random(f"{family.name} {seed}")
        self._now = _START
        self._calls = 0
        self._files: list[str] = []
        self._steps: list[Step] = []

    def session(self) -> Trace:
        chance, family = self._chance, self._family
        count = chance.randint(*family.calls)
        turns = min(count, chance.randint(*family.turns))
        starts = {0, *chance.sample(range(1, count), turns - 1)}
        gaps = self._places_of_gaps(sorted(starts), count)
        while self._calls < count:
            n = self._calls
            self._wait(self._pause_s(n in gaps))
            if n in starts:
                self._say_user(n)
            self._round(n)
            if self._calls in starts or self._calls >= count:
                self._wait(self._pause_s(long=False))
                self._steps.append((self._event("text", english(chance, 400), request=f"answer_{n}"),))
        return group_by_turns(f"{family.name}, seed {self._seed}", self._steps)

    def _places_of_gaps(self, starts: list[int], count: int) -> set[int]:
        """Return the calls before which a long pause lies: most at the start of a turn, the others anywhere."""
        chance = self._chance
        wanted = chance.randint(*self._family.long_pauses)
        at_turns = [n for n in starts[1:] if chance.random() < 0.8]
        chance.shuffle(at_turns)
        found = set(at_turns[:wanted])
        while len(found) < min(wanted, count - 1):
            found.add(chance.randrange(1, count))
        return found

    def _pause_s(self, long: bool) -> float:
        if long:
            return 60 * self._chance.uniform(*self._family.long_minutes)
        share = self._chance.random()
        at = max(1, bisect_left(PAUSE_QUANTILES, (share, 0.0)))
        (low, low_s), (high, high_s) = PAUSE_QUANTILES[at - 1 : at + 1]
        return low_s + (high_s - low_s) * (share - low) / (high - low)

    def _wait(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)

    def _say_user(self, n: int) -> None:
        said = english(self._chance, self._chance.randint(60, 700))
        self._steps.append((self._event("user", f"Task {n}: {said}"),))

    def _round(self, n: int) -> None:
        """Add a reply with one or two calls and their results."""
        chance, request = self._chance, f"request_{n}"
        reply: list[TraceEvent] = []
        results: list[Step] = []
        for _ in range(1 if chance.random() < 0.85 else 2):
            self._calls += 1
            call_id = f"{self._seed:04x}{self._calls:08x}"
            tokens = self._tokens()
            if not reply and chance.random() < 0.4:
                remark = min(60, tokens // 3)
                reply.append(self._event("text", _text("prose", chance, remark), request=request))
                tokens -= remark
            tool, params, kind = self._call(tokens // 4)
            tokens = max(8, tokens - estimate_tokens(params))
            reply.append(self._event("call", params, request=request, call_id=call_id, tool=tool))
            failed = chance.random() < 0.04
            results.append((self._event("result", _text(kind, chance, tokens), call_id=call_id, failed=failed),))
        self._steps += [tuple(reply), *results]

    def _tokens(self) -> int:
        family = self._family
        large = self._chance.random() < family.large_calls
        return self._chance.randint(*(family.large_tokens if large else family.call_tokens))

    def _call(self, tokens: int) -> tuple[str, str, str]:
        """Return a tool, its parameters of about that many tokens, and the kind of its result."""
        chance = self._chance
        tool, kind = chance.choice(
            (("Bash", "log"), ("Bash", "listing"), ("Read", "code"), ("Edit", "prose"), ("Grep", "json"))
        )
        params = {"file_path": self._file(tool)} if tool in ("Read", "Edit") else {}
        if tool == "Edit":
            params["new_string"] = _text("code", chance, tokens)
        elif tool != "Read":
            params["command" if tool == "Bash" else "pattern"] = _text("prose", chance, min(60, tokens))
        return tool, json.dumps(params), kind

    def _file(self, tool: str) -> str:
        """Return the file of a call; nearly all edits are of one of the last files that were read or edited."""
        recent = self._files[-3:]
        edits = tool == "Edit" and recent and self._chance.random() < 0.9
        self._files.append(self._chance.choice(recent if edits else _FILES))
        return self._files[-1]

    def _event(self, kind: str, text: str, **fields: object) -> TraceEvent:
        stamp = self._now.isoformat(timespec="milliseconds")
        return msgspec.convert({"kind": kind, "text": text, "ts": stamp, **fields}, TraceEvent)


def _log(chance: random.Random, chars: int) -> str:
    return _lines(
        chars,
        lambda n: f"{n:>4} INFO  worker-{chance.randrange(9)} {english(chance, 48)} in {chance.randrange(900)} ms",
    )


def _listing(chance: random.Random, chars: int) -> str:
    return _lines(
        chars,
        lambda n: f"-rw-r--r-- 1 dev dev {chance.randrange(90_000):>6} Mar  2 09:{n % 60:02} {chance.choice(_FILES)}",
    )


def _json(chance: random.Random, chars: int) -> str:
    return _lines(chars, lambda n: json.dumps({"line": n, "path": chance.choice(_FILES), "text": english(chance, 30)}))


def _lines(chars: int, line: Callable[[int], str]) -> str:
    made: list[str] = []
    length = 0
    while length < chars:
        made.append(line(len(made) + 1))
        length += len(made[-1]) + 1
    return "\n".join(made)[:chars]


_TEXTS: Final[dict[str, Callable[[random.Random, int], str]]] = {
    "prose": english,
    "code": code,
    "log": _log,
    "listing": _listing,
    "json": _json,
}


def _text(kind: str, chance: random.Random, tokens: int) -> str:
    return _TEXTS[kind](chance, max(4, round(tokens * _chars_per_token(kind))))


@cache
def _chars_per_token(kind: str) -> float:
    sample = _TEXTS[kind](random.Random(3), 20_000)
    return len(sample) / estimate_tokens(sample)
