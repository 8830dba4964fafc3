"""Renders the catalogue of edition 2: short entries with a signature in place of the JSON Schema."""

from collections.abc import Iterable
from typing import Final

from timeloom.core.render.catalogue import MAX_DESCRIPTION_CHARS, CatalogueTool, compact_schema
from timeloom.core.render.foreign_text.fence import escape, one_line
from timeloom.core.render.v2.system.signature import write_signature

IRREVERSIBLE: Final = "cannot be undone"
"""The mark of tools whose effect is irreversible; the instructions explain it."""

LEGEND: Final = "A parameter with `?` may be left out; `=` gives its default."
"""Explains the signatures below it."""

NO_PARAMS: Final = "(no parameters)"


def tool_catalogue(tools: Iterable[CatalogueTool]) -> str:
    """Return the catalogue of tools, sorted by id."""
    entries = [_tool_entry(tool) for tool in sorted(tools, key=lambda tool: tool.tool_id)]
    return "\n\n".join([LEGEND, *entries]) if entries else "(no tools)"


def _tool_entry(tool: CatalogueTool) -> str:
    mark = f" ({IRREVERSIBLE})" if tool.effect == "irreversible" else ""
    lines = [f"### {one_line(tool.tool_id)}", f"{one_line(tool.purpose, 600)}{mark}"]
    # Descriptions may come from third parties. Indentation keeps their lines from being read as headings or parameters.
    described = escape(tool.description[:MAX_DESCRIPTION_CHARS]).splitlines()
    lines += [f"  {line.strip()}" for line in described if line.strip()]
    signature = write_signature(tool.params_schema)
    lines.append(
        f"params: {compact_schema(tool.params_schema)}" if signature is None else signature or "(no parameters)"
    )
    lines += [f"example: {one_line(example, 1_000)}" for example in tool.examples]
    return "\n".join(lines)
