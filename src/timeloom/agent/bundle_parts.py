"""Turns a bundle into the settings and tools of its conversations; a bundle can only narrow those of the server."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import wraps

from msgspec.structs import replace

from timeloom.agent.workflow.attach import check_workflow
from timeloom.app import AgentSettings, SharedParts
from timeloom.bundles.bundle import Bundle, BundleChannel
from timeloom.bundles.bundle_tool import BundleTool
from timeloom.bundles.context import BundleContext, enter_bundle, make_context
from timeloom.bundles.loaded_bundle import LoadedBundle
from timeloom.core.codes import CodedError
from timeloom.core.policy.gates import Policy, PolicyResult, Proposal
from timeloom.core.stream.declared import DeclaredChannel
from timeloom.ports.tool import Tool
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
    context = make_context(bundle, settings.secrets)
    if bundle.workflow:
        check_workflow(bundle.workflow)
    registry = choose_react_tools(tools, bundle.react).with_tools(
        BundleTool(tool, context) for tool in (*_code_tools(tools), *bundle.tools)
    )
    return BundleParts(
        loaded=loaded, settings=apply_bundle(settings, bundle, context, max_iterations), registry=registry
    )


def apply_bundle(
    settings: AgentSettings, bundle: Bundle, context: BundleContext, max_iterations: int | None
) -> AgentSettings:
    """Return the settings of the bundle's conversations; this is the one place where a bundle becomes settings.

    `max_iterations` are the rounds that an option sets: it counts over the bundle, which counts over other settings.
    The server's policies and budgets stay; the policies of the bundle are added.
    """
    rounds = max_iterations or bundle.max_iterations or settings.limits.max_iterations
    instructions = (settings.instructions, bundle.instructions)
    return replace(
        settings,
        limits=replace(settings.limits, max_iterations=rounds),
        instructions="\n\n".join(text.strip() for text in instructions if text.strip()),
        policies=(*settings.policies, *(_wrap_policy(policy, context) for policy in bundle.policies)),
        output=settings.output if bundle.output in (None, str) else OutputFormat.from_type(bundle.output),
        channels=(*settings.channels, *(_declare_channel(*item) for item in bundle.channels.items())),
    )


def _declare_channel(name: str, channel: BundleChannel) -> DeclaredChannel:
    return DeclaredChannel(name=name, mime=channel.mime, purpose=channel.purpose, widget=channel.widget)


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


def _code_tools(registry: ToolRegistry) -> Sequence[Tool]:
    """Return the tools that run programs: with the context of a bundle, programs can call the tools of the bundle."""
    return [tool for tool in registry if registry.traits_of(tool.spec.tool_id).runs_code]


def _wrap_policy(policy: Policy, context: BundleContext) -> Policy:
    # The name stays: the timeline records it.
    @wraps(policy)
    def judge(proposal: Proposal) -> PolicyResult | None:
        with enter_bundle(context):
            return policy(proposal)

    return judge
