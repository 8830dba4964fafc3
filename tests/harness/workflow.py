"""Harness for workflows: a hub whose conversations run the workflow of a bundle, in memory, with a scripted model."""

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from tests.harness.hub import DelayedStore, HubHarness
from timeloom.agent.workflow.attach import attach_workflow
from timeloom.agent.workflow.bundle_loads import BundleLoads
from timeloom.agent.workflow.faults import CodeFault
from timeloom.agent.workflow.parts import WorkflowParts
from timeloom.app import SharedParts
from timeloom.bundles.bundle import Bundle
from timeloom.core.blocks import AnyBlock, Completion, ConversationStarted, TurnEnded
from timeloom.core.ids import ConversationId
from timeloom.core.policy.gates import Policy
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.model import ModelEvent, ModelRequest, TextSegment
from timeloom.ports.store import Store
from timeloom.ports.tool import Tool
from timeloom.providers.script_file import Step as ScriptStep
from timeloom.runtime.hub.events import ConvStatus
from timeloom.runtime.hub.hub import Hub
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.testing import ScriptedModel
from timeloom.tools.define import tool


class RecordingModel(ScriptedModel):
    """A scripted model that keeps the texts of its requests."""

    def __init__(self, script: Sequence[ScriptStep | str]) -> None:
        super().__init__(script)
        self.prompts: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        texts = [one.text for one in request.segments if isinstance(one, TextSegment)]
        self.prompts.append("\n".join((request.system, *texts)))
        async for event in super().stream(request):
            yield event


class WorkflowHarness(HubHarness):
    """A hub harness whose conversations belong to a bundle with that workflow."""

    def __init__(self, tmp_path: Path, workflow: type, *steps: str, hook_s: float = 30.0, base_url: str = "") -> None:
        super().__init__(tmp_path)
        self.recorder = self.model = RecordingModel(steps)
        self.header = ConversationStarted(tenant="t", project="p", user="u", bundle="shop")
        self.bundle = Bundle(name="shop", workflow=workflow)
        self.faults: list[CodeFault] = []
        self.loads = BundleLoads()
        self.shared: dict[object, SharedParts] = {}
        self.hook_s = hook_s
        self.base_url = base_url
        self.last = ConversationId("")
        """A conversation that a test wants to use again."""

    async def open(self, session: Session | None = None) -> TurnRunner:
        turns = await super().open(session)
        parts = WorkflowParts(
            bundle=self.bundle,
            session=turns.session,
            store=self.store,
            model=self.model,
            settings=self.setting,
            on_delta=self.deltas.append,
            registry=self.registry(),
            loads=self.loads,
            shared=self.shared,
            on_fault=self.faults.append,
            hook_s=self.hook_s,
            base_url=self.base_url,
        )
        return attach_workflow(turns, parts)

    def use_store(self, store: Store) -> None:
        """Keep conversations in this store from now on."""
        self.store = cast(DelayedStore, store)

    def allow_with(self, *policies: Policy) -> None:
        """Use these policies from the next opened conversation on."""
        self.setting = replace(self.setting, policies=policies)

    def finishing_tool(self, tool_id: str) -> Tool:
        """Return a pure tool of that id that answers at once."""

        async def finish() -> str:
            """Finish."""
            return "finished"

        return tool(tool_id, effect="pure")(finish)

    @property
    def delayed_store(self) -> DelayedStore:
        """The store, which tests can fill up."""
        assert isinstance(self.store, DelayedStore)
        return self.store

    async def reopen_by_name(self, conversation: ConversationId) -> TurnRunner:
        """Open a stored conversation, as the worker does."""
        return await self.open(await Session.resume(self.store, conversation, SystemClock(), RandomIds()))

    async def say(self, hub: Hub, text: str = "hello") -> ConversationId:
        """Start a conversation with that message and wait until its turn has stopped."""
        receipt = await hub.start_conversation(self.header, text)
        await self.settle(hub, receipt.conversation_id)
        return receipt.conversation_id

    async def settle(self, hub: Hub, conversation: ConversationId) -> ConvStatus:
        """Wait until no turn runs; return the status."""
        async with hub.stream(await self.store.info(conversation), 0) as (_, events):
            async for event in events:
                if isinstance(event, ConvStatus) and event.state != "running":
                    return event
        raise AssertionError("the stream ended early")

    async def answers(self, conversation: ConversationId) -> list[str]:
        """Return the texts of all answers."""
        blocks = cast(list[AnyBlock], await self.blocks(conversation))
        return [str(block.text) for block in blocks if isinstance(block, Completion)]

    async def end(self, conversation: ConversationId) -> TurnEnded:
        """Return the last end of a turn."""
        blocks = cast(list[AnyBlock], await self.blocks(conversation))
        return [block for block in blocks if isinstance(block, TurnEnded)][-1]
