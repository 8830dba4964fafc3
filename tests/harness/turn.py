"""Harness for turns: a conversation in memory, a scripted model and a few small tools."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path

from tests.harness import replies
from timeloom.app import AgentSettings, SideModels, build_turn_runner, open_session
from timeloom.core.blocks import AnyBlock, ConversationStarted
from timeloom.core.policy.next_step import TurnLimits
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.ports.model import Model
from timeloom.ports.tool import Outcome, Tool, ToolContext
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.testing import ScriptedModel
from timeloom.tools.define import tool
from timeloom.tools.react.toolset import react_tools
from timeloom.tools.registry import ToolRegistry

HEADER = ConversationStarted(tenant="t", project="p", user="u")
Step = dict[str, object]


def calls(tool_id: str, notes: str = "", **params: object) -> str:
    """Return a reply that thinks a little and calls a tool."""
    return replies.calls(tool_id, notes, thinking="hm", **params)


def script(*steps: str | Step) -> ScriptedModel:
    items: list[object] = [{"reply": step} if isinstance(step, str) else step for step in steps]
    return ScriptedModel.from_text(json.dumps(items))


class TurnHarness:
    """A conversation in memory with a scripted model."""

    def __init__(self, tmp_path: Path, *steps: str | Step, limits: TurnLimits | None = None) -> None:
        self.store = MemoryStore()
        self.model: Model = script(*steps)
        self.deltas: list[LiveDelta] = []
        self.setting = AgentSettings(data_dir=tmp_path, limits=limits or TurnLimits())
        self.effects: list[str] = []
        self.title_model: Model | None = None
        self.summary_model: Model | None = None
        self.extra: tuple[Tool, ...] = ()
        """Additional tools; one with the id of a default tool replaces it."""
        self.waiting = asyncio.Event()
        """Set once the tool `t.wait` has started."""

    async def open(self, session: Session | None = None) -> TurnRunner:
        session = session or await open_session(self.store, None, HEADER)
        turns = build_turn_runner(
            session,
            self.model,
            self.setting,
            self.deltas.append,
            self.registry(),
            SideModels(title=self.title_model, summary=self.summary_model),
        )
        turns.model_caller.backoff = (0.001,)
        return turns

    async def reopen(self, session: Session) -> TurnRunner:
        """Close the session and open the conversation again, as another process would."""
        await session.close()
        return await self.open(await open_session(self.store, session.conversation, HEADER))

    def registry(self) -> ToolRegistry:
        async def look(context: ToolContext, size: int = 10) -> str:
            """Looks."""
            self.effects.append(context.tool_call_id)
            return "x " * size

        async def send(context: ToolContext) -> Outcome:
            """Sends."""
            self.effects.append(context.tool_call_id)
            return Outcome(status="sent")

        async def wait(context: ToolContext) -> str:
            """Waits."""
            self.effects.append(context.tool_call_id)
            self.waiting.set()
            await asyncio.Event().wait()
            return "never"

        own = (
            tool("t.look", effect="pure")(look),
            tool("t.send", effect="irreversible")(send),
            tool("t.wait", effect="pure")(wait),
        )
        taken = {one.spec.tool_id for one in self.extra}
        return ToolRegistry((*react_tools(), *(one for one in own if one.spec.tool_id not in taken), *self.extra))

    def channel_text(self, channel: str) -> str:
        return "".join(delta.text for delta in self.deltas if delta.channel == channel)


async def blocks_of(turns: TurnRunner) -> list[AnyBlock]:
    session = turns.session
    return [entry.block for entry in await session.entries(range(1, session.views.tail + 1))]


def blocks_of_type(blocks: list[AnyBlock], kind: type[AnyBlock]) -> list[AnyBlock]:
    return [block for block in blocks if isinstance(block, kind)]


def run(check: Callable[[], Coroutine[object, object, None]]) -> None:
    asyncio.run(check())
