"""Turns a bundle into the settings and tools of its conversations; a bundle can only narrow those of the server."""

from functools import wraps

from msgspec.structs import replace

from timeloom.agent.bundle_parts import BundleParts
from timeloom.agent.workflow.attach import check_workflow
from timeloom.app import AgentSettings, choose_react_tools
from timeloom.bundles.bundle import Bundle
from timeloom.bundles.bundle_tool import BundleTool
from timeloom.bundles.context import BundleContext, enter_bundle, make_context
from timeloom.bundles.loaded_bundle import LoadedBundle, declare_channels
from timeloom.core.policy.gates import Policy, PolicyResult, Proposal
from timeloom.core.stream.declared import check_declared
from timeloom.ports.tool import Tool
from timeloom.tools.output_format import OutputFormat
from timeloom.tools.registry import ToolRegistry


def build_bundle_parts(
    loaded: LoadedBundle, settings: AgentSettings, tools: ToolRegistry, max_iterations: int | None
) -> BundleParts:
    """Return the parts of the bundle's conversations; raises `CodedError` if its tools do not fit the server's."""
    bundle = loaded.bundle
    context = make_context(bundle, settings.secrets)
    if bundle.workflow:
        check_workflow(bundle.workflow)
    chosen = ToolRegistry(_give_context(tools, tool, context) for tool in choose_react_tools(tools, bundle.react))
    registry = chosen.with_tools(BundleTool(tool, context) for tool in bundle.tools)
    return BundleParts(
        loaded=loaded,
        settings=apply_bundle(settings, bundle, context, max_iterations),
        registry=registry.restrict_to(bundle.allowed_tools),
    )


def apply_bundle(
    settings: AgentSettings, bundle: Bundle, context: BundleContext, max_iterations: int | None
) -> AgentSettings:
    """Return the settings of the bundle's conversations; this is the one place where a bundle becomes settings.

    `max_iterations` are the rounds that an option sets. It counts over the bundle, which counts over other settings.
    The server's policies and budgets stay; the policies of the bundle are added.
    """
    rounds = max_iterations or bundle.max_iterations or settings.limits.max_iterations
    instructions = (settings.instructions, bundle.instructions)
    return replace(
        settings,
        limits=replace(settings.limits, max_iterations=rounds),
        instructions="\n\n".join(text.strip() for text in instructions if text.strip()),
        policies=(*settings.policies, *(_wrap_policy(policy, context) for policy in bundle.policies)),
        channels=check_declared((*settings.channels, *declare_channels(bundle))),
        output=settings.output if bundle.output in (None, str) else OutputFormat.from_type(bundle.output),
    )


def _give_context(tools: ToolRegistry, tool: Tool, context: BundleContext) -> Tool:
    """Return a tool that runs programs with the context of the bundle, whose tools the programs call; others as is."""
    return BundleTool(tool, context) if tools.traits_of(tool.spec.tool_id).runs_code else tool


def _wrap_policy(policy: Policy, context: BundleContext) -> Policy:
    # The name stays: the timeline records it.
    @wraps(policy)
    def judge(proposal: Proposal) -> PolicyResult | None:
        with enter_bundle(context):
            return policy(proposal)

    return judge
