"""The base class of a bundle's workflow: a product's own code around the agent's turns."""

from collections.abc import MutableMapping
from pathlib import Path
from typing import ClassVar

from timeloom.agent.answer import Answer
from timeloom.agent.workflow.build_agent import AgentPlan, SkillsModule, ToolsModule, build_agent
from timeloom.agent.workflow.parts import WorkflowParts
from timeloom.agent.workflow.payload import Payload
from timeloom.agent.workflow.react import React
from timeloom.agent.workflow.services.context_client import ContextClient
from timeloom.agent.workflow.services.conversation_store import ConversationStore
from timeloom.agent.workflow.services.hosting import HostingService
from timeloom.agent.workflow.supervise import IDLE_S
from timeloom.agent.workflow.turn_call import TurnCall
from timeloom.bundles.bundle import Bundle
from timeloom.bundles.context import set_scratchpad
from timeloom.bundles.descriptors.places import caller_place
from timeloom.bundles.knowledge_functions import KnowledgeFunction, KnowledgeFunctions
from timeloom.core.blocks import Feedback
from timeloom.core.blocks.user import Reaction
from timeloom.core.codes import CodedError
from timeloom.core.ids import TurnId
from timeloom.core.view.feedback import is_empty_feedback
from timeloom.platform.secrets import SECRETS


class BaseWorkflow:
    """Runs the turns of a bundle's conversations. Subclass it and override `run`.

    Each call of `run` has a new object. The turn, its session and its gates are those of the conversation: on the page,
    in the terminal, over HTTP, in the worker and in a script.
    """

    idle_s: ClassVar[float] = IDLE_S
    """Longest time in seconds that `run` may work while the agent does not."""
    scratchpad: MutableMapping[str, object] | None = None
    """The scratchpad that `run` passed to `build_react`; `post_run_hook` gets it as well."""
    _call: TurnCall | None = None
    _parts: WorkflowParts | None = None

    async def run(self, payload: Payload) -> Answer[str] | str | None:
        """Answer the payload: return text, or the answer of the agent. The default runs the agent.

        A text that no agent wrote is recorded as the answer of the turn. A text other than the agent's replaces it for
        the reader, after it on the timeline.
        """
        react = await self.build_react()
        return await react.run(payload)

    async def on_bundle_load(self) -> None:
        """Prepare the bundle; called once per process before its first turn, by one process of a data folder at a time.

        Only `bundle` and `folder` exist here. An error disables the bundle.
        """

    async def pre_run_hook(self, payload: Payload) -> None:
        """Do something before each call of `run`; an error ends the turn."""

    async def post_run_hook(self, payload: Payload, answer: Answer[str]) -> None:
        """Do something after each call of `run`, before the end of the turn is recorded; an error keeps the answer."""

    async def build_react(
        self,
        *,
        scratchpad: MutableMapping[str, object] | None = None,
        tools_module: ToolsModule | None = None,
        skills_module: SkillsModule | None = None,
        knowledge_space_fn: KnowledgeFunction | None = None,
        knowledge_read_fn: KnowledgeFunction | None = None,
    ) -> React:
        """Return the agent of this turn: with the tools of the bundle, or with those of a tools descriptor.

        `scratchpad` holds values that tools reach with `get_scratchpad`. `knowledge_space_fn(query, limit)` answers
        `react.search_knowledge`, and `knowledge_read_fn(path)` answers reads of `ks:` paths. Raises
        `descriptor_malformed` with the file and line of the fault.
        """
        call = self._bound
        if scratchpad is not None:
            self.scratchpad = scratchpad
            set_scratchpad(scratchpad)
        has_knowledge = knowledge_space_fn or knowledge_read_fn
        plan = AgentPlan(
            owner=type(self),
            place=caller_place(),
            tools=tools_module,
            skills=skills_module,
            knowledge=KnowledgeFunctions(knowledge_space_fn, knowledge_read_fn) if has_knowledge else None,
        )
        return React(call=call, turns=await build_agent(call, plan))

    async def feedback(
        self, reaction: Reaction | None = None, *, text: str = "", confidence: float | None = None
    ) -> None:
        """Record feedback of a machine on the running turn, beside that of people; `confidence` is between 0 and 1."""
        call = self._bound
        author = f"bundle {self.bundle.name}"
        clean = SECRETS.redact(text)
        block = Feedback(origin="machine", reaction=reaction, text=clean, confidence=confidence, author=author)
        if is_empty_feedback(block):
            raise CodedError("request_malformed", "feedback of a machine needs a reaction, a text or a confidence")
        await call.turns.session.append([block], TurnId(call.payload.turn))

    @property
    def store(self) -> ConversationStore:
        """The records of the bundle, and the stored conversations of its user."""
        return ConversationStore(self._bound.parts)

    @property
    def hosting_service(self) -> HostingService:
        """The addresses of the conversation's files."""
        return HostingService(self._bound.parts)

    @property
    def ctx_client(self) -> ContextClient:
        """Reads and searches the conversation."""
        return ContextClient(self._bound, self.store)

    def emit(self, channel: str, text: str) -> None:
        """Send text to the clients at once on a channel, such as `timeline_text`; it is shown and not stored."""
        self._bound.turns.action_context.emit(channel, SECRETS.redact(text))

    @property
    def bundle(self) -> Bundle:
        """The bundle of the workflow."""
        return self._bound_parts.bundle

    @property
    def folder(self) -> Path:
        """A folder of the bundle's own in the data folder; `on_bundle_load` can write an index there."""
        return self._bound_parts.folder

    def bind(self, to: TurnCall | WorkflowParts) -> None:
        """Give the workflow its conversation or, before `on_bundle_load`, its bundle. Only timeloom calls it."""
        if isinstance(to, TurnCall):
            self._call, self._parts = to, to.parts
        else:
            self._parts = to

    @property
    def _bound_parts(self) -> WorkflowParts:
        if self._parts is None:
            raise CodedError("workflow_unbound", "this workflow belongs to no bundle; timeloom makes its objects")
        return self._parts

    @property
    def _bound(self) -> TurnCall:
        if self._call is None:
            raise CodedError(
                "workflow_unbound", "this workflow runs no turn; use its services inside run and its hooks"
            )
        return self._call
