"""The skills descriptor: where the skills of a bundle are, and which agent may use them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from timeloom.bundles.descriptors.places import caller_place, malformed
from timeloom.bundles.descriptors.tools import ALL, check_names


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillRule:
    """The skills that one agent may use, by id or `namespace.*`."""

    enabled: tuple[str, ...] = ALL
    disabled: tuple[str, ...] = ()
    """Exceptions from `enabled`."""
    place: str = field(default="", compare=False, repr=False)
    """The file and the line of the definition; found by itself."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", self.place or caller_place())
        check_names(self.place, "enabled", self.enabled)
        check_names(self.place, "disabled", self.disabled)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillsDescriptor:
    """Folders with skills, and the rules of the agents that may use them; an agent without a rule may use all."""

    roots: tuple[str, ...] = ()
    """Folders, relative to the bundle's."""
    agents: Mapping[str, SkillRule] = field(default_factory=dict[str, SkillRule])
    place: str = field(default="", compare=False, repr=False)
    """The file and the line of the definition; found by itself."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", self.place or caller_place())
        check_names(self.place, "roots", self.roots)
        _check_agents(self.place, self.agents)


def _check_agents(place: str, agents: object) -> None:
    rules = cast("Mapping[object, object]", agents).values() if isinstance(agents, Mapping) else (None,)
    if not all(isinstance(one, SkillRule) for one in rules):
        raise malformed(place, "`agents` maps the names of agents to SkillRule values")
