"""Generates traces and texts in the shape of recorded ones, the same in every run."""

import json
import random
from typing import Final

from bench.traces import Step, Trace, TraceEvent, TraceTokens, group_by_turns

_VOCABULARY: Final = (
    "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which "
    "one you were all her she there would their we him been has when who will no more if out so said what up its about "
    "than into them can only other time new some could these two may first then do any like my now over such our man "
    "agent timeline schema résumé naïve 日本 строка größer Ωmega ☃"
)
_WORDS: Final = _VOCABULARY.split()
_ENGLISH: Final = tuple(word for word in _WORDS if word.isascii())

_TS: Final = "2026-01-01T00:00:00Z"
_STEPS_PER_TURN: Final = 60


def session(name: str, steps: int, seed: int = 1, result_chars: int = 2000) -> Trace:
    """Return a long session of a coding agent: rounds of a reply with one or two calls, and their results."""
    chance = random.Random(seed)
    made: list[Step] = []
    next_turn = 0
    while len(made) < steps:
        if len(made) >= next_turn:
            made.append((TraceEvent("user", prose(chance, 200), _TS),))
            next_turn += _STEPS_PER_TURN
        made += _round(chance, len(made), result_chars)
    return group_by_turns(name, made[:steps])


def dialogues(count: int, seed: int = 2) -> list[Trace]:
    """Return short dialogues of 6 to 40 messages."""
    chance = random.Random(seed)
    made: list[Trace] = []
    for n in range(count):
        steps: list[Step] = []
        for at in range(chance.randrange(3, 14)):
            steps.append((TraceEvent("user", prose(chance, 120), _TS),))
            if chance.random() < 0.4:
                steps += _round(chance, at, result_chars=900)
            steps.append((TraceEvent("text", prose(chance, 250), _TS, request=f"answer_{at}"),))
        made.append(group_by_turns(f"dialogue_{n}", steps))
    return made


def prose(chance: random.Random, chars: int) -> str:
    """Return words of about that many characters."""
    words = chance.choices(_WORDS, k=max(1, chars // 4))
    return " ".join(words)[:chars]


def english(chance: random.Random, chars: int) -> str:
    """Return words of about that many characters, in plain letters."""
    words = chance.choices(_ENGLISH, k=max(1, chars // 4))
    return " ".join(words)[:chars]


def code(chance: random.Random, chars: int) -> str:
    """Return text that looks like a program, of about that many characters."""
    lines: list[str] = []
    length = 0
    while length < chars:
        name, other = chance.choices(_WORDS[:40], k=2)
        line = f"    if {name} < len({other}) and {other}[{length}] != '<':  # {prose(chance, 20)}\n"
        lines.append(line)
        length += len(line)
    return "".join(lines)[:chars]


def decision(chance: random.Random, chars: int) -> str:
    """Return a decision whose `content` has about that length."""
    params = {"path": "files/report.py", "content": code(chance, chars)}
    call = {"tool_id": "react.write", "params": params}
    return json.dumps(
        {"action": "call_tool", "notes": prose(chance, 200), "tool_call": call, "final_answer": ""},
        ensure_ascii=False,
    )


def _round(chance: random.Random, at: int, result_chars: int) -> list[Step]:
    request = f"request_{at}"
    reply: list[TraceEvent] = []
    if chance.random() < 0.1:
        reply.append(TraceEvent("thinking", prose(chance, 600), _TS, request=request))
    if chance.random() < 0.6:
        reply.append(TraceEvent("text", prose(chance, 300), _TS, request=request))
    results: list[Step] = []
    for n in range(chance.choice((1, 1, 2))):
        call = f"{at:010x}{n:02x}"
        params = json.dumps({"command": code(chance, 120), "description": prose(chance, 600)}, ensure_ascii=False)
        tokens = TraceTokens(input=3, cache_read=20_000, cache_write=900, output=200)
        reply.append(TraceEvent("call", params, _TS, call_id=call, tool="shell", request=request, tokens=tokens))
        size = min(30_000, int(chance.lognormvariate(0, 1.3) * result_chars / 2.3))
        results.append((TraceEvent("result", code(chance, size), _TS, call_id=call, failed=chance.random() < 0.04),))
    return [tuple(reply), *results]
