"""Builds the system text from the instruction texts and the catalogue of tools and skills."""

from collections.abc import Iterable, Mapping
from typing import Final

from timeloom.core.render.catalogue import CatalogueSkill, CatalogueTool, skill_catalogue, tool_catalogue

ORDER: Final = ("agent", "reply", "actions", "timeline", "paths", "plans", "notes", "citations", "ending")
"""The instruction texts by name; `actions` is replaced by `one_action` or `several_actions`."""


def build_system_text(
    texts: Mapping[str, str],
    tools: Iterable[CatalogueTool],
    skills: Iterable[CatalogueSkill] = (),
    *,
    several_actions: bool = False,
    bundle_text: str = "",
) -> str:
    """Return the system text of a turn; `bundle_text` is the bundle's addition. Equal arguments give equal bytes."""
    actions = "several_actions" if several_actions else "one_action"
    parts = [texts[actions if name == "actions" else name].strip() for name in ORDER]
    parts.append(f"# Tools\n\n{tool_catalogue(tools)}")
    if listed := skill_catalogue(skills):
        parts.append(f"# Skills\n\nRead one with react.read before you do what it is about.\n\n{listed}")
    if bundle_text.strip():
        parts.append(f"# Instructions of this assistant\n\n{bundle_text.strip()}")
    return "\n\n".join(parts) + "\n"
