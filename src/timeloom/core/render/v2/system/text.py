"""Builds the system text of edition 2 from the sections whose conditions hold, and the catalogue."""

from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom.core.render.catalogue import skill_catalogue
from timeloom.core.render.v2.system.catalogue import tool_catalogue
from timeloom.core.render.v2.system.configuration import SystemConfig
from timeloom.core.render.v2.system.examples import example_values
from timeloom.core.render.v2.system.sections import InstructionSection, render_section

SECTION_SEPARATOR: Final = " "
"""Stands between the labels of the sections in the record of a model call."""


class SystemSections(msgspec.Struct, frozen=True):
    """A system text, and the labels of the sections that it was built from, such as `reply.1`."""

    text: str
    labels: str


def build_system_text(
    sections: Sequence[InstructionSection], config: SystemConfig, *, bundle_text: str = ""
) -> SystemSections:
    """Return the system text of a turn; `bundle_text` is the bundle's addition. Equal arguments give equal bytes."""
    facts, values = config.facts(), example_values(config)
    rendered = [(section.label, render_section(section, facts, values)) for section in sections]
    parts = [text for _, text in rendered if text]
    listed_tools = config.listed_tools()
    if config.protocol == "channels":
        parts.append(f"# Tools\n\n{tool_catalogue(listed_tools)}")
    elif listed_tools:
        through = "These tools have no function of their own. Call them through the function `call_tool`."
        parts.append(f"# Tools\n\n{through}\n\n{tool_catalogue(listed_tools)}")
    if listed := skill_catalogue(config.skills):
        read = "Read one with `react.read` before you do what it is about.\n\n" if "tool:react.read" in facts else ""
        parts.append(f"# Skills\n\n{read}{listed}")
    if bundle_text.strip():
        parts.append(f"# Instructions of this assistant\n\n{bundle_text.strip()}")
    labels = SECTION_SEPARATOR.join(label for label, text in rendered if text)
    return SystemSections("\n\n".join(parts) + "\n", labels)
