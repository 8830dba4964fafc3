"""Tools as functions of a provider's native tool calling: names, descriptions and schemas, and the pinned list."""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final, cast

import msgspec

from timeloom.core.render.catalogue import CatalogueTool, tool_description
from timeloom.core.render.foreign_text.json_text import escape_json
from timeloom.core.stream.native_reply import CALL_TOOL, CODE_PARAM, COMPLETE

MAX_NAME_CHARS: Final = 64
"""Longest name of a function that all providers accept."""

MAX_FUNCTION_CHARS: Final = 1_024
"""Longest description of a function that all providers accept; the rest of a longer one is left out."""

MAX_SCHEMA_CHARS: Final = 12_000
"""Longest schema of a function. A longer one is omitted, because half a schema misleads the model."""


class NativeTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A function that a provider offers to the model; `tool_id` is empty for the functions of the runtime."""

    name: str
    description: str
    params_schema: str
    tool_id: str = ""


def make_native_tools(tools: Iterable[CatalogueTool], code_tools: Collection[str] = ()) -> tuple[NativeTool, ...]:
    """Return the functions for these tools, sorted by tool id, and the functions of the runtime after them.

    The functions of `code_tools` have the program as a parameter.
    """
    listed = sorted(tools, key=lambda tool: tool.tool_id)
    names = native_names([tool.tool_id for tool in listed])
    functions = [
        NativeTool(
            name=names[tool.tool_id],
            description=_shorten(tool_description(tool)),
            params_schema=_function_schema(tool.params_schema, runs_code=tool.tool_id in code_tools),
            tool_id=tool.tool_id,
        )
        for tool in listed
    ]
    return (*functions, *RUNTIME_FUNCTIONS)


def native_names(tool_ids: Sequence[str]) -> dict[str, str]:
    """Return a name for each tool id that all providers accept; no two tools have the same name.

    The name is the id with `_` in place of the dots. Where two ids would share a name, or it is too long or taken by
    the runtime, a hash of the id follows the name.
    """
    plain = {tool_id: _NOT_IN_NAMES.sub("_", tool_id) for tool_id in tool_ids}
    count = Counter(name.lower() for name in plain.values())
    taken = {one.name for one in RUNTIME_FUNCTIONS}
    return {
        tool_id: name
        if count[name.lower()] == 1 and len(name) <= MAX_NAME_CHARS and name not in taken
        else f"{name[: MAX_NAME_CHARS - 13]}_{hashlib.sha256(tool_id.encode()).hexdigest()[:12]}"
        for tool_id, name in plain.items()
    }


def encode_native_tools(tools: Sequence[NativeTool]) -> str:
    """Return the canonical text of the list, which a model call records."""
    return msgspec.json.encode(tools).decode()


def decode_native_tools(text: str) -> tuple[NativeTool, ...]:
    """Return the recorded list; an empty text is an empty list."""
    return _LIST.decode(text) if text else ()


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_FUNCTION_CHARS else text[: MAX_FUNCTION_CHARS - 1] + "…"


def _function_schema(text: str, *, runs_code: bool) -> str:
    """Return the schema of an object in a form that all providers accept."""
    schema = {name: value for name, value in _read_schema(text).items() if name not in _REFUSED_KEYS}
    properties = dict(cast("dict[str, object]", schema.get("properties") or {}))
    required = list(cast("list[str]", schema.get("required") or []))
    if runs_code:
        properties[CODE_PARAM] = _CODE_SCHEMA
        required = [name for name in required if name != CODE_PARAM] + [CODE_PARAM]
    ordered = {"type": "object", "properties": properties, "required": required}
    rest = {name: value for name, value in schema.items() if name not in ordered}
    return msgspec.json.encode({**ordered, **rest}).decode()


def _read_schema(text: str) -> dict[str, object]:
    try:
        compact = escape_json(msgspec.json.format(text, indent=-1))
        return _OBJECT.decode(compact) if len(compact) <= MAX_SCHEMA_CHARS else {}
    except (msgspec.MsgspecError, RecursionError):
        return {}


_LIST: Final = msgspec.json.Decoder(tuple[NativeTool, ...])
_OBJECT: Final = msgspec.json.Decoder(dict[str, object])
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_REFUSED_KEYS: Final = frozenset({"anyOf", "oneOf", "allOf", "$schema", "$id"})
"""Keys that a provider refuses at the top of a schema. Tools check their parameters themselves."""
_CODE_SCHEMA: Final = {"type": "string", "description": "the whole program as plain text, without a Markdown fence"}

RUNTIME_FUNCTIONS: Final = (
    NativeTool(
        name=COMPLETE,
        description=(
            "Ends the turn with an answer. Plain text without a function call does the same; call this to add "
            "followups and a summary, or to say that the request cannot be carried out."
        ),
        params_schema=msgspec.json.encode(
            {
                "type": "object",
                "properties": {
                    "final_answer": {"type": "string", "description": "the whole answer in Markdown"},
                    "suggested_followups": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "at most four short questions that the user could ask next",
                    },
                    "summary": {
                        "type": "string",
                        "description": "at most eight short lines for your later self: goal, outcome, facts, paths",
                    },
                    "outcome": {
                        "enum": ["complete", "exit"],
                        "default": "complete",
                        "description": "exit if the request cannot be carried out; the answer then gives the reason",
                    },
                },
                "required": ["final_answer"],
                "additionalProperties": False,
            }
        ).decode(),
    ),
    NativeTool(
        name=CALL_TOOL,
        description="Calls a tool that has no function of its own. The system text lists such tools.",
        params_schema=msgspec.json.encode(
            {
                "type": "object",
                "properties": {
                    "tool_id": {"type": "string", "description": "the id of the tool, such as react.read"},
                    "params": {"type": "object", "description": "the tool's parameters, by its schema"},
                },
                "required": ["tool_id", "params"],
                "additionalProperties": False,
            }
        ).decode(),
    ),
)
"""The functions that every native list ends with."""
