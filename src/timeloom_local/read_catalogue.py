"""Parses the tool catalogue of a system text, of both editions."""

import re
from functools import lru_cache
from typing import Final

import msgspec

from timeloom.core.render.foreign_text.fence import unescape
from timeloom.core.render.v2.system.read_signature import SignatureError, read_signature


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of the catalogue; `schema` is the text of the JSON Schema of its parameters."""

    tool_id: str
    purpose: str
    schema: str = '{"type":"object"}'
    examples: tuple[str, ...] = ()


@lru_cache(maxsize=8)
def read_catalogue(system: str) -> tuple[OfferedTool, ...]:
    """Return the tools in the order of the catalogue."""
    catalogue = system.partition("\n# Tools\n")[2]
    end = _SECTION.search(catalogue)
    sections = _HEADING.split(catalogue[: end.start()] if end else catalogue)[1:]
    return tuple(_parse_tool(section.split("\n")) for section in sections)


_HEADING: Final = re.compile(r"^### ", re.MULTILINE)
_SECTION: Final = re.compile(r"^# ", re.MULTILINE)
_EFFECT: Final = re.compile(r" \((?:changes nothing|may be repeated|cannot be undone)\)$")


def _parse_tool(lines: list[str]) -> OfferedTool:
    return OfferedTool(
        tool_id=lines[0].strip(),
        purpose=_EFFECT.sub("", lines[1]) if len(lines) > 1 else "",
        schema=_read_schema(lines),
        examples=tuple(unescape(line[9:]) for line in lines if line.startswith("example: ")),
    )


def _read_schema(lines: list[str]) -> str:
    """Return the schema of the parameters: edition 1 shows it, edition 2 shows a signature where that says the same."""
    schema = next((line[8:] for line in lines if line.startswith("params: ")), "")
    signature = [line for line in lines if line.startswith("- ")]
    if schema or not signature:
        return unescape(schema) or '{"type":"object"}'
    try:
        return msgspec.json.encode(read_signature(signature)).decode()
    except SignatureError:
        return '{"type":"object"}'
