"""Loads the tools that a tools descriptor names."""

from collections.abc import Iterator
from types import ModuleType

from timeloom.bundles.bundle_tool import BundleTool
from timeloom.bundles.context import BundleContext
from timeloom.bundles.descriptors.find_module import ModuleOwner, find_module
from timeloom.bundles.descriptors.places import malformed
from timeloom.bundles.descriptors.tools import ToolModule, ToolsDescriptor
from timeloom.core.codes import CodedError
from timeloom.ports.tool import Tool, ToolSpec
from timeloom.tools.installed import to_tools
from timeloom.tools.parameters import nearest_names
from timeloom.tools.registry import ToolRegistry

_SHOWN: int = 10


def load_toolset(
    descriptor: ToolsDescriptor, base: ToolRegistry, owner: ModuleOwner, context: BundleContext
) -> ToolRegistry:
    """Return the tools of `base` and of the descriptor that the descriptor allows.

    Raises `descriptor_malformed` with the file and line of the entry.
    """
    registry = base
    for entry in descriptor.modules:
        try:
            registry = registry.with_tools(_load(entry, owner, context))
        except CodedError as error:
            raise error if error.code == "descriptor_malformed" else malformed(entry.place, str(error)) from error
    _check_allowed(descriptor, base, registry)
    return registry.restrict_to(descriptor.allowed)


def _load(entry: ToolModule, owner: ModuleOwner, context: BundleContext) -> tuple[Tool, ...]:
    name, _, attribute = entry.module.partition(":")
    module = find_module(name, owner, entry.place)
    if attribute and not hasattr(module, attribute):
        raise malformed(entry.place, f"the module {name} has no {attribute}")
    found = to_tools(getattr(module, attribute), entry.module) if attribute else tuple(_tools_of(module))
    if not found:
        raise malformed(entry.place, f"the module {name} has no tools; decorate its functions with @tool")
    return tuple(BundleTool(one, context, _id_of(one.spec, entry.alias)) for one in _choose(entry, found))


def _tools_of(module: ModuleType) -> Iterator[Tool]:
    """Yield the tools at the top level of the module, each once."""
    values = {id(value): value for name, value in vars(module).items() if not name.startswith("_")}
    for value in values.values():
        if isinstance(getattr(value, "spec", None), ToolSpec) and callable(getattr(value, "call", None)):
            yield value


def _choose(entry: ToolModule, found: tuple[Tool, ...]) -> tuple[Tool, ...]:
    if "*" in entry.tools:
        return found
    names = {name for one in found for name in (one.spec.tool_id, _last_word(one.spec))}
    for name in entry.tools:
        if name not in names:
            known = ", ".join(sorted(_last_word(one.spec) for one in found)[:_SHOWN])
            raise malformed(entry.place, f"the module {entry.module} has no tool {name!a}; its tools are {known}")
    return tuple(one for one in found if not {one.spec.tool_id, _last_word(one.spec)}.isdisjoint(entry.tools))


def _check_allowed(descriptor: ToolsDescriptor, base: ToolRegistry, registry: ToolRegistry) -> None:
    """Raise if `allowed` misspells a tool of the descriptor; built-in tools may be missing on this machine."""
    own = {one.spec.tool_id for one in registry} - {one.spec.tool_id for one in base}
    families = {one.rpartition(".")[0] for one in own}
    for name in descriptor.allowed:
        family, _, last = name.rpartition(".")
        if last != "*" and family in families and registry.get(name) is None:
            near = nearest_names(name, sorted(own), 3)
            hint = f"; the nearest are {', '.join(near)}" if near else ""
            raise malformed(descriptor.place, f"`allowed` names {name!a}, and there is no such tool{hint}")


def _id_of(spec: ToolSpec, alias: str) -> str:
    return f"{alias}.{_last_word(spec)}" if alias else spec.tool_id


def _last_word(spec: ToolSpec) -> str:
    return spec.tool_id.rpartition(".")[2]
