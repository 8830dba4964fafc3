"""The system text: the instruction texts in their order, then the catalogue of tools and skills."""

from collections.abc import Iterable, Mapping
from typing import Final

from timeloom.core.render.catalogue import CatalogueSkill, CatalogueTool, skill_catalogue, tool_catalogue

ORDER: Final = ("agent", "reply", "actions", "timeline", "paths", "plans", "notes", "citations", "ending")
"""The texts by name; `actions` is `one_action` or `several_actions`."""


def system(
    texts: Mapping[str, str],
    tools: Iterable[CatalogueTool],
    skills: Iterable[CatalogueSkill] = (),
    *,
    several_actions: bool = False,
    own: str = "",
) -> str:
    """The system text of a turn; `own` is what a bundle adds of its own. Equal arguments give equal bytes."""
    actions = "several_actions" if several_actions else "one_action"
    parts = [texts[actions if name == "actions" else name].strip() for name in ORDER]
    parts.append(f"# Tools\n\n{tool_catalogue(tools)}")
    if listed := skill_catalogue(skills):
        parts.append(f"# Skills\n\nRead one with react.read before you do what it is about.\n\n{listed}")
    if own.strip():
        parts.append(f"# Instructions of this assistant\n\n{own.strip()}")
    return "\n\n".join(parts) + "\n"
