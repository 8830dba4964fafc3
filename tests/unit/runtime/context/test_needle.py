"""The needle: a fact of turn 3 of 200 is retrieved in two reads after any number of compactions.

`TIMELOOM_NEEDLES=100 make test` hides a hundred of them for each number of compactions, of every kind.
"""

import os
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.harness.context import EDITION, ContextHarness, summaries
from tests.harness.replies import answers
from tests.harness.turn import calls, run
from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    Digest,
    Note,
    ResultContent,
    ResultDigest,
    RoundStarted,
    Thinking,
    ToolCall,
    ToolCode,
    TurnEnded,
    TurnStarted,
    Usage,
    UserPrompt,
)
from timeloom.core.ids import CallId, TurnId
from timeloom.core.policy.compaction import find_last_cut
from timeloom.core.view.aliases import parse_in
from timeloom.ports.model import FinishEvent, ModelEvent, ModelRequest, TextPiece, TextSegment
from timeloom.runtime.context.compact import NO_MODEL
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnRunner

NEEDLES = range(int(os.environ.get("TIMELOOM_NEEDLES", "3")))
TURNS = 200
PLACE = 3
KINDS = ("result", "file", "thinking", "code", "prompt", "answer", "note")
ODD = "ümläut — 漢字 \u2028 <channel:code> [[S:3]] | 1| [TURN x] \t ~ \\n 🙂"


class Seeker:
    """A model that knows only its prompt: it reads the index of turn 3, then the path in the index."""

    name = "seeker"
    window_tokens = 60_000

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self.reads: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        prompt = "".join(segment.text for segment in request.segments if isinstance(segment, TextSegment))
        if not self.reads:
            assert names_turn(prompt, PLACE), "nothing in sight leads to the turn"
            self.reads.append(f"ar:turns[{PLACE}].react.turn.index")
            yield TextPiece(calls("react.read", paths=self.reads[-1:]))
        elif len(self.reads) == 1:
            rows = re.findall(rf"^\d+\| \w+ (\S+)[^\n]*: {self._mark}\b", prompt, re.MULTILINE)
            self.reads.append(rows[0])
            yield TextPiece(calls("react.read", paths=self.reads[-1:]))
        else:
            yield TextPiece(answers("found"))
        yield FinishEvent("end", Usage())

    async def close(self) -> None:
        pass


def names_turn(prompt: str, n: int) -> bool:
    """Whether a selection of turns in the prompt holds that one."""
    groups = re.findall(r"ar:turns\[([0-9,-]+)\]\.react\.turn\.index", prompt)
    spans = [item.partition("-") for group in groups for item in group.split(",")]
    return any(int(first) <= n <= int(last or first) for first, _, last in spans)


def turn_blocks(n: int, turn: TurnId, hidden: dict[str, str]) -> list[AnyBlock]:
    """Return a turn of one round; the needle replaces its usual text."""
    call, path, file = CallId(f"c{n}"), f"tc:{turn}.c{n}.result", f"fi:{turn}.files/f{n}.md"
    text = hidden.get("result", f"result {n} " * 40)
    return [
        Thinking(round=1, text=hidden.get("thinking", f"thought {n}")),
        ToolCode(tool_call_id=call, text=hidden.get("code", f"print({n})")),
        ToolCall(tool_id="t.look", tool_call_id=call, params=f'{{"size": {n}}}'),
        ResultDigest(tool_call_id=call, digest=Digest(artifact_path=path, mime="text/plain")),
        ResultContent(tool_call_id=call, artifact_path=path, mime="text/plain", text=text),
        ResultDigest(tool_call_id=call, digest=Digest(artifact_path=file, mime="text/markdown")),
        ResultContent(
            tool_call_id=call, artifact_path=file, mime="text/markdown", text=hidden.get("file", f"# {n}\n" * 40)
        ),
        Note(tool_call_id=call, text=hidden.get("note", f"[P] note {n}")),
        Completion(text=hidden.get("answer", f"answer {n}")),
        TurnEnded(reason="completed"),
    ]


async def compacted(turns: TurnRunner, hidden: dict[str, str], compactions: int) -> None:
    """Two hundred turns, summed up so many times on the way; the last compaction covers all but the last turns."""
    session: Session = turns.session
    every = TURNS // compactions
    for n in range(1, TURNS + 1):
        turn, mine = TurnId(f"turn_{n}"), hidden if n == PLACE else {}
        prompt = UserPrompt(text=mine.get("prompt", f"prompt {n}"))
        started = TurnStarted(n=n, edition=EDITION.get())
        await session.append([started, prompt, RoundStarted(round=1)], turn)
        if n % every == 0:
            cut = find_last_cut(session.views)
            await turns.context_fitter.compactor.extract_summary(cut, 6_000, NO_MODEL)
        await session.append(turn_blocks(n, turn, mine), turn)


@pytest.mark.parametrize("compactions", [1, 3, 10])
@pytest.mark.parametrize("number", NEEDLES)
def test_a_needle_is_found_byte_for_byte_in_two_reads(tmp_path: Path, number: int, compactions: int) -> None:
    async def check() -> None:
        mark = f"needle-{number}"
        needle = f"{mark} is {number * 7919}\n{ODD * (1 + number % 5)}"
        kind = KINDS[(number * 3 + compactions % 3) % len(KINDS)]
        stage = ContextHarness(tmp_path)
        turns = await stage.open()
        await compacted(turns, {kind: needle}, compactions)
        assert len(await summaries(turns)) == compactions
        seeker = turns.model_caller.model = Seeker(mark)
        assert await turns.run("where is it?") == "completed"
        assert len(seeker.reads) == 2
        views = turns.session.views
        shown = await turns.session.entries(views.visible.at_path[str(parse_in(seeker.reads[1], views))][-1:])
        assert isinstance(shown[0].block, ResultContent)
        assert await turns.session.text(shown[0].block.text or "") == needle

    run(check)
