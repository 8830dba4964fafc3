"""Turns a bundle into the settings and tools of its conversations; a bundle can only narrow those of the server."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import wraps

from msgspec.structs import replace

from timeloom.agent.workflow.attach import check_workflow
from timeloom.app import AgentSettings, SharedParts
from timeloom.bundles.bundle import Bundle
from timeloom.bundles.context import BundleContext, enter_bundle
from timeloom.bundles.loaded_bundle import LoadedBundle
from timeloom.core.codes import CodedError
from timeloom.core.policy.gates import Policy, PolicyResult, Proposal
from timeloom.ports.tool import Outcome, ReconcilableTool, ReconcileResult, Tool, ToolContext, ToolSpec
from timeloom.tools.output_format import OutputFormat
from timeloom.tools.registry import ToolRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleParts:
    """The settings and tools of the conversations of a bundle, or of those without one."""

    loaded: LoadedBundle | None
    settings: AgentSettings
    registry: ToolRegistry
    shared: dict[str, SharedParts] = field(default_factory=dict[str, SharedParts])
    """What conversations with the same model share, by the name of the model."""
    toolsets: dict[object, SharedParts] = field(default_factory=dict[object, SharedParts])
    """The same for the toolsets that the workflow of the bundle built."""


def build_bundle_parts(
    loaded: LoadedBundle, settings: AgentSettings, tools: ToolRegistry, max_iterations: int | None
) -> BundleParts:
    """Return the parts of the bundle's conversations; raises `CodedError` if its tools do not fit the server's."""
    bundle = loaded.bundle
    context = make_context(bundle)
    if bundle.workflow:
        check_workflow(bundle.workflow)
    registry = choose_react_tools(tools, bundle.react).with_tools(_wrap_tool(tool, context) for tool in bundle.tools)
    return BundleParts(
        loaded=loaded, settings=apply_bundle(settings, bundle, context, max_iterations), registry=registry
    )


def apply_bundle(
    settings: AgentSettings, bundle: Bundle, context: BundleContext, max_iterations: int | None
) -> AgentSettings:
    """Return the settings of the bundle's conversations; this is the one place where a bundle becomes settings.

    `max_iterations` are the rounds that an option sets: it counts over the bundle, which counts over other settings. The
    server's policies and budgets stay; the policies of the bundle are added.
    """
    rounds = max_iterations or bundle.max_iterations or settings.limits.max_iterations
    instructions = (settings.instructions, bundle.instructions)
    return replace(
        settings,
        limits=replace(settings.limits, max_iterations=rounds),
        instructions="\n\n".join(text.strip() for text in instructions if text.strip()),
        policies=(*settings.policies, *(_wrap_policy(policy, context) for policy in bundle.policies)),
        output=settings.output if bundle.output in (None, str) else OutputFormat.from_type(bundle.output),
    )


def make_context(bundle: Bundle) -> BundleContext:
    """Return the values that the bundle's code may read."""
    return BundleContext(bundle=bundle.name, settings=bundle.settings, secrets=bundle.secrets)


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
class _BundleTool:
    """A tool whose calls run in the context of its bundle, also if a program in the sandbox makes them."""

    tool: Tool
    context: BundleContext

    @property
    def spec(self) -> ToolSpec:
        return self.tool.spec

    async def call(self, params: str, context: ToolContext) -> Outcome:
        with enter_bundle(self.context):
            return await self.tool.call(params, context)


@dataclass(frozen=True, slots=True)
class _ReconcilableBundleTool(_BundleTool):
    reconciling: ReconcilableTool

    async def reconcile(self, params: str, context: ToolContext) -> ReconcileResult:
        with enter_bundle(self.context):
            return await self.reconciling.reconcile(params, context)


def _wrap_tool(tool: Tool, context: BundleContext) -> Tool:
    reconciling: object = tool
    if isinstance(reconciling, ReconcilableTool):
        return _ReconcilableBundleTool(tool, context, reconciling)
    return _BundleTool(tool, context)


def _wrap_policy(policy: Policy, context: BundleContext) -> Policy:
    # The name stays: the timeline records it.
    @wraps(policy)
    def judge(proposal: Proposal) -> PolicyResult | None:
        with enter_bundle(context):
            return policy(proposal)

    return judge
