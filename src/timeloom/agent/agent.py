"""The agent: a model, tools, rules and a store as one object that answers messages."""

import asyncio
import shutil
import tempfile
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast, overload

import msgspec
from msgspec.structs import replace

from timeloom.agent.answer import Answer, make_decoder
from timeloom.agent.conversation_factory import ConversationFactory
from timeloom.agent.hosting import AgentHost, OpenAgent
from timeloom.agent.run import Approver, Run, RunParts
from timeloom.agent.text_file import read_text_file
from timeloom.app import (
    NO_SIDE_MODELS,
    AgentSettings,
    ModelPool,
    SideModels,
    choose_react_tools,
    make_hub_settings,
    open_tools,
)
from timeloom.config.load import gather_sources, load_settings
from timeloom.config.settings import Settings
from timeloom.config.signing import open_signer
from timeloom.core.blocks import CompactionEnded, ConversationStarted
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, ConversationId
from timeloom.core.policy.budget import Budgets
from timeloom.core.policy.gates import Policy
from timeloom.core.timeline import Entry
from timeloom.core.view.forms import FORM_EVENT
from timeloom.core.view.progress import CANCEL_EVENT
from timeloom.platform.account import current_user
from timeloom.ports.clock import Clock, SystemClock
from timeloom.ports.ids import Ids, RandomIds
from timeloom.ports.model import Model
from timeloom.ports.reader import ConversationInfo
from timeloom.ports.store import Store
from timeloom.ports.tool import Tool
from timeloom.runtime.fork.fork import fork
from timeloom.runtime.hub.hub import Hub, SubscriptionContext
from timeloom.runtime.hub.state import IncomingMessage, SendReceipt
from timeloom.runtime.session.load_views import load_views
from timeloom.runtime.turn.attachments import IncomingFile
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.tools.output_format import OutputFormat
from timeloom.tools.registry import ToolRegistry

if TYPE_CHECKING:
    # An agent without bundles starts faster without them.
    from timeloom.bundles.bundle import Bundle
    from timeloom.bundles.registry import BundleRegistry

T = TypeVar("T")

TENANT, PROJECT = "local", "default"
"""Where conversations belong by default: where `timeloom serve` in mode `local` and the terminal look for them."""

PAGE = 1000
"""Entries per read of a timeline."""


class Agent(Generic[T]):
    """A model with tools, rules and a store.

    `async with agent:` opens it, resumes the turns that an earlier process left open, and keeps it open. Without that,
    each method opens and closes it. A store is a data folder, a `Store`, or None for memory. `react` chooses the
    built-in `react.*` tools: all, none, or some by id. With an `output` type, the answer is JSON that is validated in
    the turn; the model is asked again until it fits. `policies` and `budgets` replace those of the settings.
    Programs of the model run only if `settings` are passed and enable them.
    """

    @overload
    def __init__(
        self: "Agent[str]",
        model: str | Model,
        *,
        tools: Sequence[Tool] = (),
        instructions: str = "",
        policies: Sequence[Policy] | None = None,
        budgets: Budgets | None = None,
        store: str | Path | Store | None = None,
        react: bool | Sequence[str] = True,
        settings: Settings | None = None,
        name: str = "agent",
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        model: str | Model,
        *,
        output: type[T],
        tools: Sequence[Tool] = (),
        instructions: str = "",
        policies: Sequence[Policy] | None = None,
        budgets: Budgets | None = None,
        store: str | Path | Store | None = None,
        react: bool | Sequence[str] = True,
        settings: Settings | None = None,
        name: str = "agent",
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None: ...

    def __init__(
        self,
        model: str | Model,
        *,
        tools: Sequence[Tool] = (),
        instructions: str = "",
        output: object = str,
        policies: Sequence[Policy] | None = None,
        budgets: Budgets | None = None,
        store: str | Path | Store | None = None,
        react: bool | Sequence[str] = True,
        settings: Settings | None = None,
        name: str = "agent",
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self.name = name
        self._account = current_user()
        self._model = model
        self._tools = tuple(tools)
        self._react = react
        self._runs_programs = settings is not None
        settings = settings or load_settings(gather_sources({})).settings
        if isinstance(store, str | Path):
            settings = replace(settings, data_dir=Path(store))
        self.settings = settings
        self._instructions = instructions
        self._policies, self._budgets = policies, budgets
        self._store: str | Path | Store = MemoryStore() if store is None else store
        self._clock, self._ids = clock or SystemClock(), ids or RandomIds()
        self._folder: Path | None = None
        self._open_parts: OpenAgent | None = None
        self._hosts: list[AgentHost] = []
        self._stack: AsyncExitStack | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._output = None if output is str else OutputFormat.from_type(output)
        self._decode = cast(Callable[[str], T], make_decoder(output))
        self._bundles: BundleRegistry | None = None
        # A wrong set of tools fails here, where it is written, and not in the first turn.
        ToolRegistry(self._tools)

    @classmethod
    def from_bundle(
        cls,
        bundle: "Bundle | str | Path",
        model: str | Model,
        *,
        store: str | Path | Store | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> "Agent[Any]":
        """Return the agent that a bundle describes: a `Bundle`, its folder, an installed package or `module:NAME`.

        Its conversations belong to the bundle, as those of `timeloom serve --bundle`. Raises `bundle_invalid` with the
        file and the line of a fault.
        """
        # Lazy: an agent without bundles starts faster without them.
        from timeloom.bundles.bundle import Bundle  # noqa: PLC0415
        from timeloom.bundles.load import load_bundle  # noqa: PLC0415
        from timeloom.bundles.loaded_bundle import check_bundle  # noqa: PLC0415
        from timeloom.bundles.registry import BundleRegistry  # noqa: PLC0415

        loaded = check_bundle(bundle) if isinstance(bundle, Bundle) else load_bundle(bundle)
        name = loaded.bundle.name
        agent: Agent[Any] = Agent(model, store=store, settings=settings, name=name, clock=clock, ids=ids)
        agent._bundles = BundleRegistry([loaded.bundle])
        agent._decode = make_decoder(loaded.bundle.output or str)
        return agent

    async def __aenter__(self) -> Self:
        if self._stack:
            raise CodedError("agent_open", "the agent is open already; open it once, and share it between tasks")
        async with AsyncExitStack() as stack:
            parts = await stack.enter_async_context(self._open())
            for host in self._hosts:
                await stack.enter_async_context(host(parts))
            self._open_parts, self._stack = parts, stack.pop_all()
            self._loop = asyncio.get_running_loop()
        parts.hub.resume_open_turns()
        return self

    async def __aexit__(self, *_: object) -> None:
        stack, self._stack, self._open_parts, self._loop = self._stack, None, None, None
        if stack:
            await stack.aclose()

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncGenerator[None]:
        """Keep the agent open while a web application runs: `Starlette(lifespan=agent.lifespan)`."""
        async with self:
            yield

    def host(self, host: AgentHost) -> None:
        """Enter this context, before open turns resume, whenever `async with agent:` or `lifespan` opens the agent."""
        if self._stack:
            raise CodedError("agent_open", "the agent is open already; call `create_app` before you open it")
        self._hosts.append(host)

    async def run(
        self,
        message: str,
        *,
        conversation: str = "",
        user: str = "",
        tenant: str = "",
        project: str = "",
        files: Sequence[str | Path] = (),
        approve: Approver | None = None,
    ) -> Answer[T]:
        """Send the message, wait until the turn ends or waits for a person, and return the answer.

        Without `conversation`, a new one starts. `files` are text files to attach. `approve` decides on calls that need
        approval; without it, the answer has the reason `waiting`, and `decide` continues the turn.
        """
        options = {"conversation": conversation, "user": user, "tenant": tenant, "project": project}
        async with self.stream(message, files=files, approve=approve, **options) as run:
            return await run.finish()

    def run_sync(
        self,
        message: str,
        *,
        conversation: str = "",
        user: str = "",
        tenant: str = "",
        project: str = "",
        files: Sequence[str | Path] = (),
        approve: Approver | None = None,
    ) -> Answer[T]:
        """Do the same as `run` in a program or thread without an event loop.

        An agent that is open in another thread runs the turn there.
        """
        _check_no_loop()
        options = {"conversation": conversation, "user": user, "tenant": tenant, "project": project}
        turn = self.run(message, files=files, approve=approve, **options)
        if self._loop:
            return asyncio.run_coroutine_threadsafe(turn, self._loop).result()
        return asyncio.run(turn)

    @asynccontextmanager
    async def stream(
        self,
        message: str,
        *,
        conversation: str = "",
        user: str = "",
        tenant: str = "",
        project: str = "",
        files: Sequence[str | Path] = (),
        approve: Approver | None = None,
    ) -> AsyncGenerator[Run[T]]:
        """Send the message and yield the run; leaving the context early lets the turn continue while the agent is open.

        The parameters are those of `run`.
        """
        if not message.strip():
            raise CodedError("request_malformed", "message must not be empty")
        attached = await asyncio.to_thread(_read_files, files) if files else ()
        header = ConversationStarted(
            tenant=tenant or TENANT,
            project=project or PROJECT,
            user=user or self._account,
            bundle=self._bundles.choose("") if self._bundles else "",
        )
        async with self._opened() as parts:
            if conversation:
                info = await self._find(parts, conversation, user=user, tenant=tenant, project=project)
                receipt, subscription = await parts.hub.send_message_and_stream(info, message, attached)
            else:
                receipt, subscription = await parts.hub.start_and_stream(header, message, attached)
                info = await parts.store.info(receipt.conversation_id)
            async with self._follow(parts, info, receipt, subscription, approve=approve) as run:
                yield run

    async def decide(
        self,
        conversation: str,
        call_id: str,
        approved: bool,
        *,
        by: str,
        text: str = "",
        approve: Approver | None = None,
    ) -> Answer[T]:
        """Record a person's decision on a call that waits, and return the answer of the turn that continues."""
        async with self._opened() as parts:
            info = await self._find(parts, conversation)
            decide = partial(parts.hub.decide, info.id, CallId(call_id), approved, by, text)
            receipt, subscription = await parts.hub.send_and_stream(info, decide)
            following = self._follow(parts, info, receipt, subscription, approve=approve, decided=CallId(call_id))
            async with following as run:
                return await run.finish()

    async def answer_form(
        self,
        conversation: str,
        values: Mapping[str, object],
        *,
        call_id: str = "",
        by: str = "",
        approve: Approver | None = None,
    ) -> Answer[T]:
        """Answer a form by which the agent asks, by default the newest, and return the answer of the turn it begins."""
        async with self._opened() as parts:
            info = await self._find(parts, conversation)
            waiting = (await load_views(parts.store, info.id)).forms.open_forms()
            event = IncomingMessage(
                kind=FORM_EVENT,
                form=call_id or (waiting[-1] if waiting else "none"),
                text=msgspec.json.encode(values).decode(),
                by=by or current_user(),
            )
            receipt, subscription = await parts.hub.send_and_stream(info, partial(parts.hub.send_event, info.id, event))
            async with self._follow(parts, info, receipt, subscription, approve=approve) as run:
                return await run.finish()

    async def follow_up(self, conversation: str, message: str) -> None:
        """Send a message to the running turn, which sees it at its next round; without a turn, it opens one."""
        await self._send(conversation, lambda parts, name: parts.hub.send_message(name, message))

    async def steer(self, conversation: str, message: str = "") -> None:
        """Interrupt the running turn with an instruction; without one, the turn ends with a short answer."""
        event = IncomingMessage(kind="steer", text=message, by=self._account)
        await self._send(conversation, lambda parts, name: parts.hub.send_event(name, event))

    async def cancel(self, conversation: str) -> None:
        """End the running turn at once."""
        event = IncomingMessage(kind=CANCEL_EVENT, by=self._account)
        await self._send(conversation, lambda parts, name: parts.hub.send_event(name, event))

    async def compact(self, conversation: str, *, focus: str = "", keep: int = 0) -> CompactionEnded:
        """Summarize the conversation before its newest `keep` rounds; `focus` says what the summary must keep."""
        async with self._opened() as parts:
            info = await self._find(parts, conversation)
            return await parts.hub.compact(info.id, focus=focus, keep=keep)

    async def fork(self, conversation: str, *, turn: str | None = None) -> ConversationId:
        """Copy the conversation up to the end of a turn (by default the last ended one) and return the copy's id."""
        async with self._opened() as parts:
            info = await self._find(parts, conversation)
            copied = await fork(parts.store, info.id, parts.workspaces, self._clock, self._ids, turn=turn)
            return copied.conversation

    async def timeline(self, conversation: str) -> AsyncIterator[Entry]:
        """Yield all entries of the conversation in order."""
        async with self._opened() as parts:
            info = await self._find(parts, conversation)
            after = 0
            while entries := await parts.store.load(info.id, after, PAGE):
                for entry in entries:
                    yield entry
                after = entries[-1].seq

    async def _send(
        self, conversation: str, send: Callable[[OpenAgent, ConversationId], Awaitable[SendReceipt]]
    ) -> None:
        parts = self._open_parts
        if parts is None:
            raise CodedError("agent_closed", "no turn can run while the agent is closed; use it in `async with agent:`")
        info = await self._find(parts, conversation)
        await send(parts, info.id)

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[OpenAgent]:
        """Yield the open parts; if the agent is closed, open it for this context."""
        if self._open_parts:
            yield self._open_parts
            return
        async with self._open() as parts:
            yield parts

    @asynccontextmanager
    async def _follow(
        self,
        parts: OpenAgent,
        info: ConversationInfo,
        receipt: SendReceipt,
        subscription: SubscriptionContext,
        *,
        approve: Approver | None,
        decided: CallId | None = None,
    ) -> AsyncGenerator[Run[T]]:
        async with subscription as (stream, events):
            run_parts = RunParts(
                hub=parts.hub,
                store=parts.store,
                info=info,
                receipt=receipt,
                decode=self._decode,
                user=info.user,
                approve=approve,
                decided=decided,
            )
            yield Run(run_parts, stream, events)

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[OpenAgent]:
        async with AsyncExitStack() as stack:
            models = await stack.enter_async_context(ModelPool(self.settings))
            model, side_models = self._find_models(models)
            registry = await stack.enter_async_context(self._open_registry())
            store = await self._open_store(stack)
            agent_settings = self._agent_settings()
            factory = ConversationFactory(
                store=store,
                model=model,
                setting=agent_settings,
                clock=self._clock,
                ids=self._ids,
                tools=registry,
                holder=f"timeloom agent {self.name}",
                side=side_models,
                bundles=self._bundles,
            )
            hub_settings = make_hub_settings(self.settings.server)
            yield OpenAgent(
                hub=await stack.enter_async_context(Hub(store, factory, self._clock, self._ids, hub_settings)),
                store=store,
                factory=factory,
                model=model,
                side_models=side_models,
                models=models,
                tools=registry,
                settings=self.settings,
                agent_settings=agent_settings,
            )

    def _find_models(self, models: ModelPool) -> tuple[Model, SideModels]:
        if isinstance(self._model, str):
            return models.get(self._model), models.get_side_models(self._model)
        return self._model, NO_SIDE_MODELS

    @asynccontextmanager
    async def _open_registry(self) -> AsyncGenerator[ToolRegistry]:
        settings = self.settings
        if not self._runs_programs:
            runtime = replace(settings.execution.runtime, enabled=False)
            settings = replace(settings, execution=replace(settings.execution, runtime=runtime))
        async with open_tools(settings) as registry:
            yield choose_react_tools(registry, self._react).with_tools(self._tools)

    async def _open_store(self, stack: AsyncExitStack) -> Store:
        if isinstance(self._store, str | Path):
            # Lazy: an agent in memory starts faster without the database driver.
            from timeloom.stores.sqlite import SqliteStore  # noqa: PLC0415

            opening = await SqliteStore.open(Path(self._store), signer=open_signer(self.settings))
            return await stack.enter_async_context(opening)
        return self._store

    def _agent_settings(self) -> AgentSettings:
        settings = AgentSettings.from_settings(self.settings)
        if not isinstance(self._store, str | Path):
            settings = replace(settings, data_dir=self._temporary_folder())
        return replace(
            settings,
            instructions=self._instructions or settings.instructions,
            policies=settings.policies if self._policies is None else tuple(self._policies),
            budgets=settings.budgets if self._budgets is None else self._budgets,
            output=self._output,
        )

    def _temporary_folder(self) -> Path:
        """Return the folder of the workspaces of a store without one; it is removed with the agent."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="timeloom-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    async def _find(
        self, parts: OpenAgent, conversation: str, *, user: str = "", tenant: str = "", project: str = ""
    ) -> ConversationInfo:
        """Return the conversation; one of another user, tenant or project counts as unknown."""
        info = await parts.store.info(ConversationId(conversation))
        expected = (user or info.user, tenant or info.tenant, project or info.project)
        if (info.user, info.tenant, info.project) != expected:
            raise CodedError("conversation_unknown", f"{user or self._account} has no conversation {conversation}")
        return info


def _check_no_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise CodedError("event_loop_running", "an event loop runs in this thread; use `await agent.run(…)` here")


def _read_files(files: Sequence[str | Path]) -> tuple[IncomingFile, ...]:
    return tuple(read_text_file(Path(file)) for file in files)
