"""Builds the agent that a workflow asks for: with the tools of a descriptor, and knowledge functions."""

import asyncio
from dataclasses import dataclass, replace
from types import ModuleType

from timeloom.agent.workflow.parts import WorkflowParts
from timeloom.agent.workflow.turn_call import TurnCall
from timeloom.app import SharedParts, build_shared_parts, build_turn_runner
from timeloom.bundles.descriptors.find_module import ModuleOwner, find_module
from timeloom.bundles.descriptors.load_tools import load_toolset
from timeloom.bundles.descriptors.places import malformed
from timeloom.bundles.descriptors.read_module import read_skills_module, read_tools_module
from timeloom.bundles.descriptors.skills import SkillsDescriptor
from timeloom.bundles.descriptors.tools import ToolsDescriptor
from timeloom.bundles.knowledge_functions import KnowledgeFunctions
from timeloom.bundles.missing_parts import find_missing_parts
from timeloom.ports.tool import Tool
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.tools.react.read import ReadTool
from timeloom.tools.react.resolve import ContentReader
from timeloom.tools.react.toolset import make_read_tool
from timeloom.tools.registry import ToolRegistry

ToolsModule = str | ModuleType | ToolsDescriptor
"""A tools descriptor: its value, its module, or the name of the module."""

SkillsModule = str | ModuleType | SkillsDescriptor
"""A skills descriptor: its value, its module, or the name of the module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlan:
    """What a workflow asks for; None stands for the bundle's own."""

    owner: type
    """The class of the workflow, in whose package or folder modules are searched first."""
    place: str
    """Where the workflow asks for it."""
    tools: ToolsModule | None = None
    skills: SkillsModule | None = None
    knowledge: KnowledgeFunctions | None = None

    @property
    def is_default(self) -> bool:
        """Whether the agent is that of the bundle."""
        return self.tools is None and self.skills is None and self.knowledge is None


async def build_agent(call: TurnCall, plan: AgentPlan) -> TurnRunner:
    """Return a runner of the same turn with the tools of the plan; raises `descriptor_malformed`."""
    if plan.is_default:
        return call.turns
    parts = call.parts
    # In a thread, because importing a bundle's modules may take long.
    registry = await asyncio.to_thread(_load_registry, parts, plan)
    if plan.knowledge:
        registry = _with_knowledge(registry, plan.knowledge, parts)
    return build_turn_runner(
        parts.session,
        parts.model,
        parts.settings,
        parts.on_delta,
        _share_system_text(parts, registry),
        parts.side_models,
        inbox=call.turns.inbox,
    )


def _load_registry(parts: WorkflowParts, plan: AgentPlan) -> ToolRegistry:
    owner = ModuleOwner(module=plan.owner.__module__, bundle=parts.bundle.name)
    tools, skills = _read_tools(plan, owner), _read_skills(plan, owner)
    parts.loads.missing.report(*find_missing_parts(parts.bundle.name, tools, skills))
    if tools is None:
        return parts.registry
    # A tools descriptor replaces the tools of the bundle; built-in tools and those of the server stay.
    own = {one.spec.tool_id for one in parts.bundle.tools}
    base = ToolRegistry(one for one in parts.registry if one.spec.tool_id not in own)
    return load_toolset(tools, base, owner, parts.context)


def _read_tools(plan: AgentPlan, owner: ModuleOwner) -> ToolsDescriptor | None:
    if plan.tools is None or isinstance(plan.tools, ToolsDescriptor):
        return plan.tools
    return read_tools_module(_to_module(plan, owner, "tools_module", plan.tools))


def _read_skills(plan: AgentPlan, owner: ModuleOwner) -> SkillsDescriptor | None:
    if plan.skills is None or isinstance(plan.skills, SkillsDescriptor):
        return plan.skills
    return read_skills_module(_to_module(plan, owner, "skills_module", plan.skills))


def _to_module(plan: AgentPlan, owner: ModuleOwner, what: str, value: object) -> ModuleType:
    match value:
        case str():
            return find_module(value, owner, plan.place)
        case ModuleType():
            return value
        case _:
            kind = type(value).__name__
            raise malformed(plan.place, f"`{what}` must be a module, the name of one or a descriptor, got {kind}")


def _with_knowledge(registry: ToolRegistry, knowledge: KnowledgeFunctions, parts: WorkflowParts) -> ToolRegistry:
    def read_from_it(one: Tool) -> Tool:
        if one.spec.tool_id == "react.read":
            return make_read_tool(ReadTool(limits=parts.settings.read, source=knowledge))
        return one.with_source(knowledge) if isinstance(one, ContentReader) else one

    return ToolRegistry(map(read_from_it, registry)).with_tools(knowledge.tools)


def _share_system_text(parts: WorkflowParts, registry: ToolRegistry) -> SharedParts:
    """Return the parts for the tools; agents with the same catalogue share the system text."""
    catalogue = registry.specs()
    shared = parts.shared.get(catalogue)
    if shared is None:
        shared = parts.shared[catalogue] = build_shared_parts(parts.model, parts.settings, registry)
    # The tools themselves may belong to one turn, as the knowledge functions do.
    return replace(shared, registry=registry)
