"""Renders the catalogue of tools and skills in the system text."""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from timeloom.core.render.foreign_text.fence import escape, one_line
from timeloom.core.render.foreign_text.json_text import escape_json

MAX_DESCRIPTION_CHARS: Final = 4_000
"""Maximum length of a tool's description. Longer ones crowd out other tools; details belong in a skill."""

MAX_SCHEMA_CHARS: Final = 12_000
"""Maximum length of a tool's parameter schema. A longer schema is omitted, because half a schema misleads the model."""

_EFFECTS: Final = {
    "pure": "changes nothing",
    "idempotent": "may be repeated",
    "irreversible": "cannot be undone",
}


class CatalogueTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as the catalogue lists it; `params_schema` is the text of a JSON Schema."""

    tool_id: str
    purpose: str
    description: str = ""
    params_schema: str = '{"type":"object"}'
    effect: Literal["pure", "idempotent", "irreversible"] = "irreversible"
    examples: tuple[str, ...] = ()
    runs_code: bool = False
    """Whether it runs the program of the code channel."""
    reads_paths: bool = False
    """Whether it shows the content of paths; examples prefer such a tool, because most turns use it."""
    allows_answer: bool = False
    """Whether a final answer may follow it in the same reply."""


class CatalogueSkill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill as the catalogue lists it before the model reads it."""

    ref: str
    purpose: str


def tool_catalogue(tools: Iterable[CatalogueTool]) -> str:
    """Return the catalogue of tools, sorted by id."""
    entries = [_tool_entry(tool) for tool in sorted(tools, key=lambda tool: tool.tool_id)]
    return "\n\n".join(entries) or "(no tools)"


def skill_catalogue(skills: Iterable[CatalogueSkill]) -> str:
    """Return the catalogue of skills, sorted by reference; empty if there are none."""
    rows = sorted(skills, key=lambda skill: skill.ref)
    return "\n".join(f"- sk:{one_line(skill.ref)}: {one_line(skill.purpose, 600)}" for skill in rows)


def tool_description(tool: CatalogueTool) -> str:
    """Return the purpose, the effect, the description and the examples of a tool, without its id and schema."""
    examples = [_example(example) for example in tool.examples]
    return "\n".join([_purpose(tool), *_description_lines(tool), *examples])


def _tool_entry(tool: CatalogueTool) -> str:
    lines = [f"### {one_line(tool.tool_id)}", _purpose(tool)]
    lines += [f"  {line}" for line in _description_lines(tool)]
    lines.append(f"params: {compact_schema(tool.params_schema)}")
    lines += [_example(example) for example in tool.examples]
    return "\n".join(lines)


def _purpose(tool: CatalogueTool) -> str:
    return f"{one_line(tool.purpose, 600)} ({_EFFECTS[tool.effect]})"


def _description_lines(tool: CatalogueTool) -> list[str]:
    # Descriptions may come from third parties. Indentation keeps their lines from being read as headings.
    described = escape(tool.description[:MAX_DESCRIPTION_CHARS]).splitlines()
    return [line.strip() for line in described if line.strip()]


def _example(example: str) -> str:
    return f"example: {one_line(example, 1_000)}"


def compact_schema(text: str) -> str:
    """Return the schema as one compact line."""
    try:
        compact = msgspec.json.format(text, indent=-1)
    except (msgspec.MsgspecError, RecursionError):
        compact = ""
    return escape_json(compact) if 0 < len(compact) <= MAX_SCHEMA_CHARS else '{"type":"object"}'
