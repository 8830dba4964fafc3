"""The settings and tools of the conversations of one bundle, or of those without one."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timeloom.app import AgentSettings, SharedParts
from timeloom.tools.registry import ToolRegistry

if TYPE_CHECKING:
    # An agent without bundles starts faster without them.
    from timeloom.bundles.loaded_bundle import LoadedBundle


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleParts:
    """The settings and tools of conversations; `loaded` is their bundle."""

    loaded: "LoadedBundle | None"
    settings: AgentSettings
    registry: ToolRegistry
    shared: dict[str, SharedParts] = field(default_factory=dict[str, SharedParts])
    """What conversations with the same model share, by the name of the model."""
    toolsets: dict[object, SharedParts] = field(default_factory=dict[object, SharedParts])
    """The same for the toolsets that the workflow of the bundle built."""
