"""Harness for the golden examples: a scripted model, the real tools and a real store, with fixed time and counted ids.

Each example has a folder of two files: `blocks.jsonl` contains the blocks of its last turn on the exported timeline,
and `prompt.txt` the part of the last request that shows that turn. `TIMELOOM_WRITE_GOLDEN=1` rewrites them; review the
difference before you commit it.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from tests.harness.replies import calls
from timeloom.app import AgentSettings, build_turn_runner, open_session
from timeloom.core.blocks import Attachment, AttachmentMeta, ConversationStarted, Digest
from timeloom.core.ids import TurnId, make_turn_id
from timeloom.core.payload import ref_of
from timeloom.core.policy.gates import DEFAULT_POLICIES, Policy
from timeloom.core.policy.next_step import TurnLimits
from timeloom.core.render.editions import FIRST_EDITION
from timeloom.core.render.segments import RenderedSegment, as_text
from timeloom.core.sources import SourceRow
from timeloom.ports.model import DataSegment, ModelEvent, ModelRequest, Segment, TextPiece
from timeloom.ports.store import Store
from timeloom.ports.tool import Artifact, Outcome, Tool, ToolContext
from timeloom.runtime.read.export import export_timeline
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.testing import ScriptedModel
from timeloom.tools.define import tool
from timeloom.tools.react.toolset import react_tools
from timeloom.tools.registry import ToolRegistry

FOLDER = Path(__file__).parent / "examples"
EPOCH_US = 1_770_603_271_112_000
HEADER = ConversationStarted(tenant="home", project="demo", user="ann")

HIDDEN_TYPES = frozenset({"conv.header", "conv.title", "react.model.call", "react.model.outcome"})
"""Types that no example shows: header, title and model calls."""

TURN_TYPES = frozenset({"turn.header", "user.prompt", "react.round.start", "assistant.completion", "react.turn.end"})
"""Types that only an example of a whole turn shows."""

MAX_TEXT_CHARS = 4_000
"""Longest text in `blocks.jsonl`."""

CUT_CHARS = 60
"""Length of the streamed part of a truncated reply."""

SECTIONS = ("SOURCES POOL", "ANNOUNCE")
"""The parts of a prompt's tail that end at a blank line; the others are a title with indented lines below it."""


ROWS = (
    SourceRow(sid=1, title="Best of Wuppertal", url="https://eat.example/w", text="Ten places, rated by guests."),
    SourceRow(sid=2, title="Table guide", url="https://tables.example/wuppertal", text="Prices and opening hours."),
)


@tool("web_tools.web_search", effect="pure")
async def search(context: ToolContext, queries: tuple[str, ...], n: int = 5) -> Outcome:
    """Searches the web, of which these two pages are all."""
    rows = ROWS[: n if queries else 0]
    listed = [{"sid": row.sid, "title": row.title, "url": row.url} for row in rows]
    result = Artifact(
        path=f"tc:{context.turn_id}.{context.tool_call_id}.result",
        mime="application/json",
        text=json.dumps(listed),
        kind="file",
        visibility="internal",
    )
    return Outcome(sources=rows, artifacts=(result,))


SEARCH = calls("web_tools.web_search", queries=["best restaurants wuppertal"], n=5)


class StoppedClock:
    """A clock that stands still, so that no example depends on the number of readings."""

    def epoch_us(self) -> int:
        return EPOCH_US


class NumberedIds:
    """Ids from the given bits, then from the numbers from 1 on."""

    def __init__(self, given: Sequence[int] = ()) -> None:
        self._given = list(given)
        self._count = 0

    @property
    def next(self) -> int:
        """The next bits."""
        return self._given[0] if self._given else self._count + 1

    def bits(self) -> int:
        if self._given:
            return self._given.pop(0)
        self._count += 1
        return self._count


class ObservedModel:
    """A scripted model that records its requests and runs callbacks while it streams."""

    def __init__(self, replies: Sequence[str]) -> None:
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []
        self.callbacks: dict[int, Callable[[], Awaitable[object]]] = {}
        """Callbacks by request number, counted from 1; each runs when its reply starts to stream."""
        self.truncated: set[int] = set()
        """Requests with a truncated reply, after which the model streams nothing more."""

    @property
    def name(self) -> str:
        return "script"

    @property
    def window_tokens(self) -> int:
        return 200_000

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.requests.append(request)
        number = len(self.requests)
        async for event in ScriptedModel(self.replies).stream(request):
            cut = number in self.truncated
            yield TextPiece(event.text[:CUT_CHARS]) if cut and isinstance(event, TextPiece) else event
            if number in self.callbacks:
                await self.callbacks.pop(number)()
            if cut:
                await asyncio.Event().wait()

    async def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that a user attaches."""

    name: str
    mime: str
    data: bytes
    summary: str = ""


@dataclass(frozen=True, slots=True)
class ExampleConversation:
    """A conversation; an example shows the blocks of its last turn."""

    store: Store
    turns: TurnRunner
    model: ObservedModel
    ids: NumberedIds

    @property
    def turn(self) -> TurnId:
        """The id of the last turn."""
        return self.turns.session.views.progress.turn_id

    async def run_turn(self, prompt: str, *uploads: UploadedFile) -> TurnId:
        """Send this prompt and run the turn to its end; return its id."""
        turn = make_turn_id(EPOCH_US // 1000, self.ids.next)
        attached = [block for upload in uploads for block in _attachment_blocks(upload, turn)]
        await self.turns.run(prompt, tuple(attached))
        assert self.turn == turn
        return turn

    async def assert_matches(self, name: str, *tail: str, whole: bool = False, first_round: int = 1) -> None:
        """Assert that the blocks and the prompt equal those of the example's folder.

        They cover the turn's rounds from `first_round` on, or with `whole` the complete turn. Of the prompt's tail they
        cover the parts with these titles.
        """
        start = f"[TURN {self.turn}]" if whole else f"[ROUND {first_round}]"
        blocks = await self._blocks()
        if not whole:
            begins = next(n for n, block in enumerate(blocks) if block.get("meta") == {"round": first_round})
            blocks = [block for block in blocks[begins:] if block["type"] not in TURN_TYPES]
        lines = "".join(f"{json.dumps(_shorten_texts(block), ensure_ascii=False)}\n" for block in blocks)
        texts = {"blocks.jsonl": lines, "prompt.txt": self._prompt(start, tail)}
        folder = FOLDER / name
        if os.environ.get("TIMELOOM_WRITE_GOLDEN"):
            folder.mkdir(parents=True, exist_ok=True)
            for file, text in texts.items():
                (folder / file).write_text(text, encoding="utf-8")
        assert texts == {file: (folder / file).read_text(encoding="utf-8") for file in texts}

    async def _blocks(self) -> list[dict[str, object]]:
        exported = b"".join([piece async for piece in export_timeline(self.store, self.turns.session.conversation)])
        blocks = cast("list[dict[str, object]]", json.loads(exported)["blocks"])
        return [block for block in blocks if block.get("turn_id") == self.turn and block["type"] not in HIDDEN_TYPES]

    def _prompt(self, start: str, tail: Sequence[str]) -> str:
        *cached, last = [_to_rendered_segment(segment) for segment in self.model.requests[-1].segments]
        _, head, rest = as_text(cached).rpartition(start)
        return head + rest + "".join(_tail_part(last.text, title) for title in tail)


@dataclass(frozen=True, slots=True)
class ExampleHarness:
    """Opens conversations for examples."""

    store: Store
    folder: Path
    tools: list[Tool] = field(default_factory=lambda: [search])
    policies: tuple[Policy, ...] = DEFAULT_POLICIES
    edition: int = FIRST_EDITION

    async def start_conversation(
        self, *replies: str, limits: TurnLimits | None = None, ids: NumberedIds | None = None
    ) -> ExampleConversation:
        """Return a new conversation with a model that gives these replies."""
        ids = ids or NumberedIds()
        session = await open_session(self.store, None, HEADER, clock=StoppedClock(), ids=ids)
        model = ObservedModel(replies)
        setting = AgentSettings(
            data_dir=self.folder, limits=limits or TurnLimits(), policies=self.policies, edition=self.edition
        )
        registry = ToolRegistry((*react_tools(), *self.tools))
        turns = build_turn_runner(session, model, setting, lambda _: None, registry)
        return ExampleConversation(self.store, turns, model, ids)


def _shorten_texts(value: object) -> object:
    """Return the value with very long texts replaced by their length and hash, so that the files stay small."""
    match value:
        case str() if len(value) > MAX_TEXT_CHARS:
            return f"<{len(value)} characters, sha256 {ref_of(value.encode()).sha256[:16]}>"
        case dict():
            return {name: _shorten_texts(one) for name, one in cast("dict[str, object]", value).items()}
        case list():
            return [_shorten_texts(one) for one in cast("list[object]", value)]
        case _:
            return value


def _attachment_blocks(upload: UploadedFile, turn: TurnId) -> tuple[AttachmentMeta, Attachment]:
    path = f"fi:{turn}.user.attachments/{upload.name}"
    digest = Digest(artifact_path=path, mime=upload.mime, size_bytes=len(upload.data))
    text = upload.data.decode() if upload.mime.startswith("text/") else None
    data = upload.data if text is None else None
    content = Attachment(artifact_path=path, mime=upload.mime, text=text, data=data, digest=digest)
    return AttachmentMeta(digest=digest, summary=upload.summary), content


def _to_rendered_segment(segment: Segment) -> RenderedSegment:
    if isinstance(segment, DataSegment):
        return RenderedSegment(data=segment.data, mime=segment.mime)
    return RenderedSegment(segment.text)


def _tail_part(tail: str, title: str) -> str:
    """Return the part of a prompt's tail that begins with this title."""
    lines = tail.split("\n")
    start = end = next(n for n, line in enumerate(lines) if line.startswith(title))
    while end + 1 < len(lines) and (lines[end + 1] if title in SECTIONS else lines[end + 1].startswith(" ")):
        end += 1
    return "".join(f"{line}\n" for line in lines[start : end + 1]) + "\n"
