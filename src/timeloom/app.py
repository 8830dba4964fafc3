"""The composition root: connects a conversation with everything it needs to run turns."""

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final, Self

import msgspec

from timeloom.config.documents import make_document_tools
from timeloom.config.models import model_settings, protocol_of
from timeloom.config.sandboxes import open_sandbox
from timeloom.config.sections.server import ServerSettings
from timeloom.config.settings import Settings
from timeloom.config.web import open_web_tools
from timeloom.core.blocks import ConversationStarted, Shown
from timeloom.core.blocks.caching import CacheRates, CacheSettings
from timeloom.core.blocks.round import ReplyProtocol
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, make_conversation_id
from timeloom.core.payload import Text
from timeloom.core.policy.budget import Budgets
from timeloom.core.policy.compaction import CompactSettings
from timeloom.core.policy.gates import DEFAULT_POLICIES, Policy
from timeloom.core.policy.next_step import TurnLimits
from timeloom.core.policy.pruning import PruneSettings
from timeloom.core.policy.repair_reply import RepairContext, ToolForm
from timeloom.core.render.editions import SECOND_EDITION, renderer_for
from timeloom.core.render.facts import CardLimits
from timeloom.core.stream.declared import NO_CHANNELS, DeclaredChannel, check_declared
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.ports.clock import Clock, SystemClock
from timeloom.ports.ids import Ids, RandomIds
from timeloom.ports.model import MAX_CALL_S, Model, supports_native_tools
from timeloom.ports.sandbox import Sandbox
from timeloom.ports.store import Store
from timeloom.ports.tool import Tool
from timeloom.providers.registry import open_model
from timeloom.runtime.context.compact import Compactor
from timeloom.runtime.context.fit_window import ContextFitter
from timeloom.runtime.context.prune import Pruner
from timeloom.runtime.governance.governor import Governor
from timeloom.runtime.hub.hub import HubSettings
from timeloom.runtime.prompt.builder import PromptBuilder, PromptObserver, PromptSettings
from timeloom.runtime.prompt.cache_rates import cache_rates
from timeloom.runtime.prompt.recorded_instructions import InstructionPart, list_parts
from timeloom.runtime.prompt.system_text import SystemSettings, SystemTexts
from timeloom.runtime.session.resume import resume_session
from timeloom.runtime.session.session import HOLDER, Session
from timeloom.runtime.turn.ask_model import ModelCaller
from timeloom.runtime.turn.execute_action import ActionContext
from timeloom.runtime.turn.inbox import Inbox
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.runtime.turn.title import TitleGenerator
from timeloom.runtime.turn.tool_result import Show
from timeloom.tools.output_format import OutputFormat
from timeloom.tools.react.hide import HideTool
from timeloom.tools.react.read import ReadLimits, ReadTool
from timeloom.tools.react.toolset import react_tools
from timeloom.tools.registry import ToolRegistry


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The data directory, limits and policies that conversations run with."""

    data_dir: Path
    limits: TurnLimits = TurnLimits()
    instructions: str = ""
    max_output_tokens: int = PromptSettings().max_output_tokens
    thinking_tokens: int = 0
    read: ReadLimits = ReadLimits()
    policies: tuple[Policy, ...] = DEFAULT_POLICIES
    budgets: Budgets = Budgets()
    cache: CacheSettings = CacheSettings()
    prune: PruneSettings = PruneSettings()
    cards: CardLimits = CardLimits()
    compact: CompactSettings = CompactSettings()
    model_call_s: float = MAX_CALL_S
    edition: int = 1
    """The edition of everything that models read and write in new turns."""
    secrets: Mapping[str, str] = {}
    """References to the secrets that the code of all bundles may read, by name."""
    output: OutputFormat | None = None
    """The form of the answers of new turns; None means plain text."""
    channels: tuple[DeclaredChannel, ...] = NO_CHANNELS
    """The channels that new turns declare beside the built-in ones."""
    protocol: ReplyProtocol = "channels"
    protocols: Mapping[str, ReplyProtocol] = {}
    """The protocols of models that have another one than `protocol`, by name; names may end in `*`."""

    def protocol_of(self, model: str) -> ReplyProtocol:
        """Return the protocol of the model with that name."""
        return protocol_of(model, self.protocol, self.protocols)

    @property
    def workspaces(self) -> Path:
        """The directory that contains one workspace directory per conversation."""
        return self.data_dir / "workspaces"

    @classmethod
    def from_settings(cls, settings: Settings) -> "AgentSettings":
        """Return the part of the settings that a conversation needs."""
        return cls(
            data_dir=settings.data_dir,
            limits=TurnLimits(max_iterations=settings.react.max_iterations, fanout=settings.react.multi_action),
            instructions=settings.instructions,
            max_output_tokens=settings.models.max_output_tokens,
            thinking_tokens=settings.models.thinking_tokens,
            read=ReadLimits(
                text_symbols=settings.read.text_symbols,
                tokens=settings.read.tokens,
                text_bytes=settings.read.text_bytes,
                image_bytes=settings.modality.max_image_bytes,
                pdf_bytes=settings.modality.max_doc_bytes,
                call_tokens=settings.read.call_tokens,
            ),
            policies=settings.policy.to_policies(),
            budgets=settings.budget.to_budgets(),
            secrets=settings.secrets,
            edition=settings.context.edition,
            cache=CacheSettings(
                min_rounds=settings.cache.min_rounds,
                offset_rounds=settings.cache.offset_rounds,
                editable_tail_tokens=settings.cache.editable_tail_tokens,
                lifetime=settings.cache.lifetime,
            ),
            prune=settings.context.to_prune_settings(),
            cards=settings.context.to_card_limits(),
            compact=settings.context.to_compact_settings(),
            model_call_s=settings.timeouts.call_s,
            protocol=settings.models.protocol,
            protocols=settings.protocols,
        )


class SideModels(msgspec.Struct, frozen=True, kw_only=True):
    """The models for a conversation's title and summaries; None means that no model is used."""

    title: Model | None = None
    summary: Model | None = None


NO_SIDE_MODELS: Final = SideModels()


class ModelPool:
    """A cache of models by name: each is opened once, and all are closed when the context exits."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._models: dict[str, Model] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for model in self._models.values():
            await model.close()

    def get(self, name: str) -> Model:
        """Return the model of that name, opened at the first call; raises `ModelNameError` for an unknown name."""
        if name not in self._models:
            used_names = {model.name for model in self._models.values()}
            self._models[name] = open_model(name, model_settings(self._settings, name), used_names=used_names)
        return self._models[name]

    def get_side_models(self, name: str) -> SideModels:
        """Return the models for titles and summaries of a conversation that uses the model `name`."""
        wanted = (self._settings.title_model, self._settings.summary_model)
        title, summary = (None if one == "none" else self.get(one or name) for one in wanted)
        return SideModels(title=title, summary=summary)


async def open_session(
    store: Store,
    conversation: ConversationId | None,
    header: ConversationStarted,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    holder: str = HOLDER,
) -> Session:
    """Open the conversation, or start one with the header, and return its session.

    Raises `ConversationHeldError` if another process holds the conversation.
    """
    clock, ids = clock or SystemClock(), ids or RandomIds()
    if conversation is not None:
        return await resume_session(store, conversation, clock, ids, holder=holder)
    fresh = make_conversation_id(clock.epoch_us() // 1000, ids.bits())
    return await Session.start(store, fresh, header, clock, ids, holder=holder)


def make_hub_settings(server: ServerSettings) -> HubSettings:
    """Return the limits of the hub of a server or an agent."""
    return HubSettings(
        rest_s=server.rest_s, grace_s=server.grace_s, reader_bytes=server.reader_bytes, beat_s=server.heartbeat_s
    )


@asynccontextmanager
async def open_tools(settings: Settings) -> AsyncGenerator[ToolRegistry]:
    """Yield the tools that these settings enable; the sandbox is closed when the context exits."""
    agent_settings = AgentSettings.from_settings(settings)
    async with open_web_tools(settings.web) as web_tools, _open_sandbox_tools(settings) as sandbox_tools:
        registry = default_tools(agent_settings)
        yield registry.with_tools([*web_tools, *sandbox_tools]) if web_tools or sandbox_tools else registry


@asynccontextmanager
async def _open_sandbox_tools(settings: Settings) -> AsyncGenerator[Sequence[Tool]]:
    """Yield the tools that need a sandbox: the exec tool, and those that render documents."""
    if not (settings.execution.runtime.enabled or settings.documents.enabled):
        yield ()
        return
    sandbox = open_sandbox(settings.execution)
    try:
        yield (*make_document_tools(settings, sandbox), *_make_exec_tools(settings, sandbox))
    finally:
        await sandbox.close()


def _make_exec_tools(settings: Settings, sandbox: Sandbox) -> Sequence[Tool]:
    if not settings.execution.runtime.enabled:
        return ()
    # Lazy: an agent that runs no programs starts faster without them.
    from timeloom.tools.exec.settings import ExecSettings  # noqa: PLC0415
    from timeloom.tools.exec.tool import ExecTool  # noqa: PLC0415

    limits = settings.execution.limits
    return (ExecTool(sandbox, ExecSettings(limits=limits.to_limits(), max_timeout_s=limits.max_timeout_s)),)


_prompt_observers: Final[list[PromptObserver]] = []


@contextmanager
def observe_prompts(observer: PromptObserver) -> Generator[None]:
    """Pass the observer to all turn runners that this process builds until the context exits, in any thread.

    This is the extension point for checks over all prompts. The test suite checks with it that each prompt extends the
    previous one. An observer that raises fails the turn.
    """
    _prompt_observers.append(observer)
    try:
        yield
    finally:
        _prompt_observers.remove(observer)


def default_tools(settings: AgentSettings) -> ToolRegistry:
    """Return the built-in `react.*` tools."""
    return ToolRegistry(
        react_tools(ReadTool(limits=settings.read), HideTool(settings.cache), text_version=settings.edition)
    )


def choose_react_tools(registry: ToolRegistry, react: bool | Sequence[str]) -> ToolRegistry:
    """Return the registry with all built-in `react.*` tools, none, or some by id."""
    if react is True:
        return registry
    wanted = frozenset(() if react is False else react)
    known = {tool.spec.tool_id for tool in registry}
    if unknown := sorted(wanted - known):
        names = ", ".join(sorted(name for name in known if name.startswith("react.")))
        raise CodedError("unknown_tool", f"react names {', '.join(unknown)}; the built-in tools are {names}")
    return ToolRegistry(
        tool for tool in registry if tool.spec.tool_id in wanted or not tool.spec.tool_id.startswith("react.")
    )


@dataclass(frozen=True, slots=True)
class SharedParts:
    """The parts that conversations with the same model, settings and tools share, built once for all of them."""

    registry: ToolRegistry
    prompts: PromptSettings
    systems: SystemTexts
    rates: Callable[[], CacheRates]
    stored_systems: dict[str, tuple[str, Text]]
    """By tenant, the last system text and its stored form."""


def build_shared_parts(model: Model, settings: AgentSettings, registry: ToolRegistry | None = None) -> SharedParts:
    """Return the parts that `build_turn_runner` can share; without a registry, only the react tools are available."""
    registry = registry or default_tools(settings)
    prompts = _prompt_settings(model, settings)
    systems = SystemTexts(registry.specs(), _system_settings(prompts, settings))
    return SharedParts(registry, prompts, systems, cache(partial(cache_rates, model)), {})


def list_instructions(settings: AgentSettings, model: str, registry: ToolRegistry) -> tuple[InstructionPart, ...]:
    """Return the parts of the system text that new turns of this model have with these settings and tools."""
    prompts = PromptSettings(model=model, limits=settings.limits, protocol=settings.protocol_of(model))
    system = msgspec.structs.replace(_system_settings(prompts, settings), edition=settings.edition)
    return list_parts(registry.specs(), system)


def build_turn_runner(
    session: Session,
    model: Model,
    settings: AgentSettings,
    on_delta: Callable[[LiveDelta], None],
    registry: ToolRegistry | SharedParts | None = None,
    side_models: SideModels = NO_SIDE_MODELS,
    *,
    inbox: Inbox | None = None,
) -> TurnRunner:
    """Return the runner of the session's turns; without a registry, only the react tools are available.

    Without a title model, the first words of a conversation become its title. Without a summary model, summaries are
    extracts of the messages. Two runners of one session share an inbox.
    """
    shared = registry if isinstance(registry, SharedParts) else build_shared_parts(model, settings, registry)
    registry, prompts = shared.registry, shared.prompts
    inbox = inbox or Inbox(session)
    models = tuple(one for one in (model, side_models.title, side_models.summary) if one)
    governor = Governor(session=session, policies=settings.policies, budgets=settings.budgets, models=models)
    prompt_builder = PromptBuilder(
        session, shared.systems, prompts, governor, shared.rates, observers=_prompt_observers
    )
    model_caller = ModelCaller(
        session=session,
        model=model,
        prompt_source=prompt_builder,
        on_delta=on_delta,
        governor=governor,
        repair_context=_repair_context(registry, settings.limits),
        stored_systems=shared.stored_systems,
        call_s=settings.model_call_s,
    )
    action_context = ActionContext(
        session=session,
        registry=registry,
        show=_previewer(session, for_programs=_runs_programs(registry)),
        out_dir=settings.workspaces / session.conversation,
        emit=lambda channel, text: on_delta(LiveDelta(channel, 0, text)),
        interrupt=inbox.interrupt,
        governor=governor,
        window_tokens=model.window_tokens,
    )
    return TurnRunner(
        session=session,
        model_caller=model_caller,
        context_fitter=_build_context_fitter(prompt_builder, governor, model, settings, shared, side_models.summary),
        action_context=action_context,
        inbox=inbox,
        titles=TitleGenerator(session, side_models.title, governor=governor),
        limits=settings.limits,
        edition=settings.edition,
        output=settings.output.schema if settings.output else "",
        channels=_check_channels(model, settings),
    )


def _previewer(session: Session, *, for_programs: bool) -> Show:
    def show(text: str, mime: str, path: str) -> Shown:
        renderer = renderer_for(session.views.turns.edition)
        return renderer.preview(text, mime, path, session.views, for_programs=for_programs)

    return show


def _build_context_fitter(
    prompt_builder: PromptBuilder,
    governor: Governor,
    model: Model,
    settings: AgentSettings,
    shared: SharedParts,
    summary_model: Model | None,
) -> ContextFitter:
    session = governor.session
    compactor = Compactor(
        session=session,
        governor=governor,
        model=summary_model,
        settings=settings.compact,
        text_chars=settings.cards.text_chars,
        effect_of=lambda tool_id: shared.registry.resolve(tool_id).spec.effect,
    )
    return ContextFitter(
        session=session,
        model=model,
        prompt_builder=prompt_builder,
        pruner=Pruner(session=session, model=model.name, settings=settings.prune, limits=settings.cards),
        compactor=compactor,
        reply_tokens=shared.prompts.max_output_tokens,
    )


def _runs_programs(registry: ToolRegistry) -> bool:
    return any(registry.traits_of(spec.tool_id).runs_code for spec in registry.specs())


def _repair_context(registry: ToolRegistry, limits: TurnLimits) -> RepairContext:
    forms = {
        name: ToolForm(spec.tool_id, spec.params_schema)
        for spec in registry.specs()
        for name in (spec.tool_id, *spec.aliases)
    }
    return RepairContext(by_name=forms, custom=registry.custom_traits, allows_several=limits.fanout == "safe_fanout")


def _prompt_settings(model: Model, settings: AgentSettings) -> PromptSettings:
    return PromptSettings(
        model=model.name,
        limits=settings.limits,
        window_tokens=model.window_tokens,
        # The reply must not fill a small context window alone.
        max_output_tokens=min(settings.max_output_tokens, max(1, model.window_tokens // 4)),
        thinking_tokens=settings.thinking_tokens,
        cache=settings.cache,
        protocol=_check_protocol(model, settings.protocol_of(model.name)),
    )


def _system_settings(prompts: PromptSettings, settings: AgentSettings) -> SystemSettings:
    return SystemSettings(
        protocol=prompts.protocol,
        several_actions=settings.limits.fanout == "safe_fanout",
        instructions=settings.instructions,
    )


def _check_protocol(model: Model, protocol: ReplyProtocol) -> ReplyProtocol:
    """Return the protocol; raises if the model cannot do it."""
    if protocol == "native" and not supports_native_tools(model):
        raise CodedError(
            "setting_invalid",
            f"{model.name} has no native tool calling; set models.protocol to channels, or for this model alone "
            f'protocols."{model.name}" = "channels"',
        )
    return protocol


def _check_channels(model: Model, settings: AgentSettings) -> tuple[DeclaredChannel, ...]:
    """Return the declared channels; raises if the model's protocol or the edition of the prompts has none."""
    names = ", ".join(one.name for one in settings.channels)
    if names and settings.protocol_of(model.name) == "native":
        raise CodedError(
            "setting_invalid",
            f"the channels {names} cannot be written with native tool calling; set models.protocol to channels, or for "
            f'this model alone protocols."{model.name}" = "channels"',
        )
    if names and settings.edition < SECOND_EDITION:
        raise CodedError("setting_invalid", f"the channels {names} need edition 2; set context.edition to 2")
    return check_declared(settings.channels)
