"""Builds the system text of native tool calling: instructions without channels, and the tools without a function."""

from collections.abc import Iterable, Mapping, Sequence

from timeloom.core.render.catalogue import CatalogueTool, tool_catalogue
from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.render.system import ORDER


def build_native_system_text(
    texts: Mapping[str, str],
    unlisted: Iterable[CatalogueTool] = (),
    removed: Sequence[str] = (),
    *,
    several_actions: bool = False,
    bundle_text: str = "",
) -> str:
    """Return the system text of a turn; the catalogue is sent as functions. Equal arguments give equal bytes.

    `unlisted` are the tools that were added after the functions were pinned. `removed` are the names of functions whose
    tools are gone.
    """
    actions = "several_actions" if several_actions else "one_action"
    parts = [texts[actions if name == "actions" else name].strip() for name in ORDER]
    if later := list(unlisted):
        parts.append(f"# Tools without a function\n\nCall these with `call_tool`.\n\n{tool_catalogue(later)}")
    if removed:
        names = ", ".join(f"`{one_line(name)}`" for name in removed)
        parts.append(f"# Functions without a tool\n\nThe tools of these functions are gone; do not call them: {names}.")
    if bundle_text.strip():
        parts.append(f"# Instructions of this assistant\n\n{bundle_text.strip()}")
    return "\n\n".join(parts) + "\n"
