"""Harness for replays: conversations with a model that records its requests, and logs with correct hashes."""

import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from msgspec.structs import replace

from tests.harness.turn import HEADER, Step
from timeloom.app import AgentSettings, SideModels, build_turn_runner, open_session
from timeloom.core.blocks import AnyBlock, ModelCalled
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.policy.next_step import TurnLimits
from timeloom.core.render.prompt import PromptView, needed_seqs
from timeloom.core.timeline import NO_TURN, Draft, Entry, to_entry
from timeloom.core.view.views import Views
from timeloom.ports.model import ModelEvent, ModelRequest
from timeloom.ports.store import Store, StoreProblem
from timeloom.ports.tool import ToolContext
from timeloom.runtime.prompt.hashing import request_sha256
from timeloom.runtime.replay.replay import ReplayedCall, replay
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.testing import ScriptedModel
from timeloom.tools.define import tool
from timeloom.tools.react.toolset import react_tools
from timeloom.tools.registry import ToolRegistry

CONVERSATION = ConversationId("conv_1770603271112_replay00")
TURN = TurnId("turn_1")
TS = "2026-02-09T02:14:32.676425Z"
LARGE = "many words " * 4_000


class RecordingModel:
    """A scripted model that records its requests."""

    def __init__(self, *steps: str | Step) -> None:
        self._model = ScriptedModel.from_text(json.dumps([{"reply": s} if isinstance(s, str) else s for s in steps]))
        self.requests: list[ModelRequest] = []

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def window_tokens(self) -> int:
        return self._model.window_tokens

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.requests.append(request)
        return self._model.stream(request)

    async def close(self) -> None:
        await self._model.close()


class ReplayHarness:
    """A store, a model and the turns of one conversation."""

    def __init__(
        self, tmp_path: Path, *steps: str | Step, store: Store | None = None, fanout: bool = False, titles: bool = False
    ) -> None:
        self.store = store or MemoryStore()
        self._titles = titles
        self.model = RecordingModel(*steps)
        self._limits = TurnLimits(fanout="safe_fanout" if fanout else "off")
        self._tmp_path = tmp_path

    async def open(self, conversation: ConversationId | None = None) -> TurnRunner:
        session = await open_session(self.store, conversation, HEADER)
        setting = AgentSettings(data_dir=self._tmp_path, limits=self._limits)
        title_model = self.model if self._titles else None
        turns = build_turn_runner(
            session, self.model, setting, lambda _: None, _registry(), side_models=SideModels(title=title_model)
        )
        turns.model_caller.backoff = (0.001,)
        return turns


def _registry() -> ToolRegistry:
    async def look(context: ToolContext, size: int = 10) -> str:
        """Looks."""
        return f"{context.tool_call_id} " * size

    return ToolRegistry((*react_tools(), tool("t.look", effect="pure")(look)))


async def run_replay(store: Store, conversation: ConversationId) -> tuple[list[ReplayedCall], list[StoreProblem]]:
    """Run a replay and return its calls and its findings."""
    found = [one async for one in replay(store, conversation)]
    return [one for one in found if isinstance(one, ReplayedCall)], [
        one for one in found if isinstance(one, StoreProblem)
    ]


def to_drafts(entries: Sequence[Entry]) -> list[Draft]:
    """Return the entries as drafts, without sequence numbers."""
    return [Draft(entry.turn_id, entry.ts, entry.block, entry.original) for entry in entries]


def with_request_hashes(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries with the correct request hash in each model call, computed from a freshly opened prompt."""
    views, done = Views(), list[Entry]()
    for entry in entries:
        block = entry.block
        if isinstance(block, ModelCalled):
            opened = PromptView.from_views(views, {seq: done[seq - 1] for seq in needed_seqs(views)})
            fingerprint = opened.fingerprint() if block.purpose == "decision" else ""
            sha256 = request_sha256(str(block.system), fingerprint, str(block.tail))
            block = replace(block, request_sha256=sha256, rendering=opened.renderer.number)
        done.append(replace(entry, block=block))
        views.add(done[-1])
    return done


def make_log(*blocks: AnyBlock, turn: TurnId = TURN) -> list[Entry]:
    """Return a conversation of one turn with correct hashes; entry 1 is the header, and the blocks follow."""
    drafts = [Draft(NO_TURN, TS, HEADER), *(Draft(turn, TS, block) for block in blocks)]
    return with_request_hashes([to_entry(draft, seq) for seq, draft in enumerate(drafts, 1)])


async def store_entries(entries: Sequence[Entry], store: Store | None = None) -> Store:
    """Return a store that contains these entries as its only conversation."""
    store = store or MemoryStore()
    await store.append(CONVERSATION, 0, to_drafts(entries))
    return store
