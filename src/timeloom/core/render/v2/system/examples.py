"""Builds example calls from the tools of a catalogue, so that an example never names a tool that is missing."""

from typing import Final, cast

import msgspec

from timeloom.core.render.catalogue import CatalogueTool
from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.render.foreign_text.json_text import escape_json, json_line
from timeloom.core.render.v2.system.configuration import SystemConfig
from timeloom.core.render.v2.system.read_signature import read_signature
from timeloom.core.render.v2.system.signature import write_signature
from timeloom.core.stream.declared import MAX_PURPOSE_CHARS, DeclaredChannel

MAX_EXAMPLE_CHARS: Final = 300
"""Longest parameters of an example. Longer ones teach nothing about the form of a reply."""

_EFFECTS: Final = ("pure", "idempotent", "irreversible")
_Schema = dict[str, object]


def example_values(config: SystemConfig) -> dict[str, str]:
    """Return the placeholders of the sections: example calls, and the ids of tools that a rule names."""
    calls = _example_calls(config)
    code = config.code_tool()
    return {
        "call": calls[0] if calls else "",
        "other_call": calls[1] if len(calls) > 1 else "",
        "code_call": _call(code, _made_params(code, _Filling(lists=False))) if code else "",
        "code_tool": f"`{one_line(code.tool_id)}`" if code else "",
        "output_schema": escape_json(config.output_schema),
        "declared_channels": "\n".join(map(_channel_row, config.channels)),
        "answer_tools": ", ".join(f"`{one_line(name)}`" for name in config.answer_tools()),
    }


def _channel_row(channel: DeclaredChannel) -> str:
    purpose = one_line(channel.purpose, MAX_PURPOSE_CHARS).replace("|", "\\|")
    return f"| `{channel.name}` | {channel.mime} | {purpose} |"


def _example_calls(config: SystemConfig) -> list[str]:
    """Return two different calls, of tools that change nothing where there are such."""
    order = sorted(
        (tool for tool in config.tools if not tool.runs_code),
        key=lambda tool: (not tool.reads_paths, _EFFECTS.index(tool.effect), tool.tool_id),
    )
    found = [_call(tool, _example_params(tool)) for tool in order[:2]]
    if len(found) == 1:
        found.append(_call(order[0], _made_params(order[0], _Filling(prefix="other "))))
    return found


def _call(tool: CatalogueTool, params: str) -> str:
    return f'{{"tool_id":{json_line(tool.tool_id)},"params":{params}}}'


def _example_params(tool: CatalogueTool) -> str:
    for example in tool.examples:
        try:
            compact = msgspec.json.format(example, indent=-1)
        except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
            continue
        if compact.startswith("{") and len(compact) <= MAX_EXAMPLE_CHARS:
            return escape_json(compact)
    return _made_params(tool, _Filling())


class _Filling(msgspec.Struct, frozen=True, kw_only=True):
    """How values are made: the prefix of strings, and whether lists have an item."""

    prefix: str = ""
    lists: bool = True


def _made_params(tool: CatalogueTool, filling: _Filling) -> str:
    """Return parameters made from the schema: the required ones, or the first one if none is required."""
    signature = write_signature(tool.params_schema)
    lines = [line for line in (signature or "").split("\n") if line.startswith("- ")]
    if not lines:
        return "{}"
    schema = read_signature(lines)
    names = cast(list[str], schema["required"]) or list(cast(_Schema, schema["properties"]))[:1]
    params = json_line(_example_value({**schema, "required": names}, "", filling))
    return params if len(params) <= MAX_EXAMPLE_CHARS else "{}"


def _example_value(part: _Schema, name: str, filling: _Filling) -> object:
    if "enum" in part:
        return cast(list[object], part["enum"])[0]
    if "anyOf" in part:
        return _example_value(cast(list[_Schema], part["anyOf"])[0], name, filling)
    match part.get("type"):
        case "object":
            properties = cast(dict[str, _Schema], part["properties"])
            return {key: _example_value(properties[key], key, filling) for key in cast(list[str], part["required"])}
        case "array":
            return [_example_value(cast(_Schema, part["items"]), name, filling)] if filling.lists else []
        case "integer" | "number":
            return part.get("minimum", 1)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return f"<{filling.prefix}{name}>"
