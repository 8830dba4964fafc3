"""Needles anywhere: every text of a long conversation is found in at most two reads by a model that has its prompt.

The conversation runs through the real loop, with pruning and compaction as shipped. `make needles` hides a hundred.
"""

import os
import random
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.harness.context import ContextHarness, make_windowed_model, summaries
from tests.harness.replies import answers, thinking_text
from tests.harness.turn import HEADER, calls, run
from timeloom.app import AgentSettings, open_session
from timeloom.core.blocks import Usage
from timeloom.core.ids import ConversationId
from timeloom.core.policy.gates import allow
from timeloom.core.policy.next_step import TurnLimits
from timeloom.core.render.foreign_text.fence import unfence
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.render.v2.fence import unfence_text
from timeloom.ports.ids import RandomIds
from timeloom.ports.model import FinishEvent, ModelEvent, ModelRequest, TextPiece, TextSegment
from timeloom.ports.tool import ToolContext
from timeloom.runtime.fork.fork import fork
from timeloom.tools.define import tool

NEEDLES: Final = int(os.environ.get("TIMELOOM_NEEDLES", "9"))
KINDS: Final = ("result", "message", "file", "plan", "table", "thinking", "answer", "paste", "json")
PLACES: Final = ("middle", "end", "start")
ODD: Final = "ümläut — 漢字 \u2028 | 1| \t ~ \u00a0 ☺"
SIZES: Final = {"result": 60_000, "paste": 60_000, "table": 60_000, "json": 60_000, "file": 20_000}


def filler(rng: random.Random, chars: int, kind: str) -> list[str]:
    """Return lines of so many characters: prose of a few hundred words, or rows of a table."""
    words = [
        f"{a}{b}" for a in ("ba", "ke", "lo", "mi", "nu", "ro", "sa", "ti") for b in ("rk", "lon", "mer", "nat", "pil")
    ]
    lines: list[str] = []
    while chars > 0:
        row = f"row {len(lines)} has {rng.randint(1, 99_999)} of {rng.choice(words)}"
        lines.append(row if kind == "table" else " ".join(rng.choices(words, k=rng.randint(4, 18))))
        chars -= len(lines[-1]) + 1
    return lines


class Needle(msgspec.Struct, frozen=True):
    """A text to find: its mark, which the seeker knows, and where it is hidden."""

    number: int
    kind: str
    place: str

    @property
    def mark(self) -> str:
        return f"needle-{self.number:03}"

    @property
    def text(self) -> str:
        return f"{self.mark} holds {self.number * 7919} {ODD} end of {self.mark}"

    def hidden(self) -> str:
        """Return the text around the needle."""
        rng = random.Random(self.number)
        lines = filler(rng, SIZES.get(self.kind, 3_000), self.kind)
        at = {"start": 0, "middle": len(lines) // 2, "end": len(lines)}[self.place]
        # In every second text the needle stands inside a line.
        if self.number % 2 and at < len(lines):
            lines[at] = f"{lines[at]} {self.text} {lines[at]}"
        else:
            lines.insert(at, self.text)
        return msgspec.json.encode({"lines": lines}).decode() if self.kind == "json" else "\n".join(lines)

    def replies(self) -> tuple[str, ...]:
        """Return the replies of the turn that hides it."""
        match self.kind:
            case "result" | "table" | "json":
                return calls("t.page", n=self.number), answers("done")
            case "file":
                return calls("react.write", path=f"notes{self.number}.md", content=self.hidden()), answers("written")
            case "plan":
                steps = ["collect metrics", self.text, "draft the answer", "send it to all"]
                steps.insert({"start": 0, "middle": 2, "end": 3}[self.place], steps.pop(1))
                return calls("react.plan", mode="new", steps=steps), answers("planned")
            case "thinking":
                return (thinking_text(self.hidden()) + answers("thought"),)
            case "answer":
                return (answers(self.hidden()),)
            case _:
                return (answers("thanks"),)

    @property
    def prompt(self) -> str:
        return self.hidden() if self.kind in ("message", "paste") else f"ask {self.number}"


HIDDEN: Final = [Needle(n, KINDS[n % len(KINDS)], PLACES[(n // len(KINDS) + n) % 3]) for n in range(NEEDLES)]


class NeedleHarness(ContextHarness):
    """A conversation in which each turn hides a needle, with a tool that returns the pages."""

    def __init__(self, tmp_path: Path, window_tokens: int) -> None:
        super().__init__(tmp_path)
        replies = [reply for needle in HIDDEN for reply in needle.replies()]
        after = [reply for n in range(4) for reply in (calls("t.look", size=9_000 + n), answers("seen"))]
        self.model = make_windowed_model(window_tokens, *replies, *after)
        self.setting = AgentSettings(data_dir=tmp_path, limits=TurnLimits(max_iterations=9))

        async def page(context: ToolContext, n: int) -> str:
            """Shows a page."""
            self.effects.append(context.tool_call_id)
            return HIDDEN[n].hidden()

        self.extra = (tool("t.page", effect="pure")(page),)

    async def hide(self) -> tuple[ConversationId, int]:
        """Run all turns; return the conversation and the number of its compactions."""
        turns = await self.open()
        turns.action_context.governor.policies = (lambda _: allow(),)
        for prompt in [*(needle.prompt for needle in HIDDEN), *(f"look {n}" for n in range(4))]:
            assert await turns.run(prompt) == "completed"
        count = len(await summaries(turns))
        await turns.session.close()
        return turns.session.conversation, count


_PATH: Final = re.compile(r"(?:ar|tc|fi|so|ws):[^\s\"'()\]]+")
_TURN_ROW: Final = re.compile(r"- (?:t(\d+)|(\d+) turn_\S+) ")
_INDEXES: Final = re.compile(r"ar:(?:turns\[([0-9,-]+)\]|t([0-9]+))\.react\.turn\.index")
_BEGIN: Final = re.compile(r"\[(t\d+\.\d+)\]")
"""The line before a result in edition 2; the path of the result follows from it."""
_RANGE: Final = re.compile(r" lines? (\d+)(?:-(\d+)| from symbol (\d+))?")


class Seeker:
    """A model that knows the mark of a needle and its prompt, and nothing else."""

    name = "seeker"

    def __init__(self, needle: Needle, window_tokens: int) -> None:
        self.window_tokens = window_tokens
        self._needle = needle
        self.reads: list[dict[str, object]] = []
        self.found = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        prompt = "".join(segment.text for segment in request.segments if isinstance(segment, TextSegment))
        self.found = self._is_in(prompt)
        if self.found or len(self.reads) == 3:
            yield TextPiece(answers("found" if self.found else "lost"))
        else:
            self.reads.append(self._next_read(prompt))
            yield TextPiece(calls("react.read", "", **self.reads[-1]))
        yield FinishEvent("end", Usage())

    async def close(self) -> None:
        pass

    def _is_in(self, prompt: str) -> bool:
        """Whether the prompt shows the needle with all its characters: as it is, fenced, or in JSON."""
        text, in_json = self._needle.text, msgspec.json.encode(self._needle.text).decode()[1:-1]
        forms = (unfence(prompt), unfence_text(prompt))
        return json_line(text)[1:-1] in prompt or any(text in shown or in_json in shown for shown in forms)

    def _next_read(self, prompt: str) -> dict[str, object]:
        """Return the read of a place that the prompt names with the mark; else of the indexes that it names."""
        path = ""
        places: list[dict[str, object]] = []
        for line in prompt.split("\n"):
            named = _PATH.search(line.partition(self._needle.mark)[0])
            path = named[0].rstrip(":;,.") if named and line.startswith("[") else path
            path = f"tc:{begun[1]}.result" if (begun := _BEGIN.fullmatch(line)) else path
            if self._needle.mark not in line:
                continue
            if row := _TURN_ROW.match(line):
                places.append({"path": f"ar:turns[{row[1] or row[2]}].react.turn.index"})
            elif named or path:
                here = named[0].rstrip(":;,.") if named else path
                places.append(_to_item(here, line.partition(self._needle.mark)[0]))
        if places:
            return {"items": places[-1:]}
        numbers = [int(n) for found in _INDEXES.findall(prompt) for n in re.findall(r"\d+", " ".join(found))]
        return {"paths": [f"ar:turns[{min(numbers)}-{max(numbers)}].react.turn.index"]}


def _to_item(path: str, before: str) -> dict[str, object]:
    item: dict[str, object] = {"path": path}
    if found := _RANGE.search(before):
        first, last, symbol = found.groups()
        item |= {"line_start": int(first)}
        item |= {"symbol_start": int(symbol)} if symbol else {"line_count": int(last or first) - int(first) + 1}
    return item


async def seek(hidden: NeedleHarness, conversation: ConversationId, seeker: Seeker) -> None:
    """Run a turn with the seeker on a fork of the conversation."""
    copied = await fork(hidden.store, conversation, hidden.setting.workspaces, hidden.clock, RandomIds())
    session = await open_session(hidden.store, copied.conversation, HEADER, clock=hidden.clock)
    turns = await hidden.open(session)
    turns.model_caller.model = seeker
    await turns.run("where is it?")
    await session.close()


@pytest.mark.parametrize("window_tokens", [24_000, 48_000])
def test_needles_are_found_wherever_they_are_in_at_most_two_reads(tmp_path: Path, window_tokens: int) -> None:
    async def check() -> None:
        harness = NeedleHarness(tmp_path, window_tokens)
        conversation, compactions = await harness.hide()
        assert compactions >= NEEDLES // 12
        lost: list[str] = []
        for needle in HIDDEN:
            seeker = Seeker(needle, window_tokens)
            await seek(harness, conversation, seeker)
            if not seeker.found or len(seeker.reads) > 2:
                lost.append(f"{needle} after {seeker.reads}")
        assert lost == []

    run(check)
