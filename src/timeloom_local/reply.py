"""Builds replies: channels and decision by code, with slots for the text of the small model."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from timeloom.core.stream.channels import DECISION, declared_channels
from timeloom_local.engine import GenerationRequest

MAX_THINKING_CHARS: Final = 600


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the reply that the model writes, and the form that its text takes.

    `string` is the inside of a JSON string, `raw` the unchanged text.
    """

    generation: GenerationRequest
    form: Literal["string", "raw"] = "string"


class TextTemplate(msgspec.Struct, frozen=True):
    """A JSON string made of known text and slots."""

    parts: tuple[str | Slot, ...]


Value = str | int | float | bool | Sequence[str] | Slot | TextTemplate | msgspec.Raw
"""A parameter: a known value, or a slot that the model fills."""

Parts = tuple[str | Slot, ...]


def build_call_reply(
    tool_id: str,
    params: Mapping[str, Value] | Slot,
    *,
    thinking: str,
    notes: str = "",
    code: str = "",
    edition: int = 1,
) -> Parts:
    """Return a reply that calls a tool; `params` may be one slot for the whole object."""
    head = f'{{"action": "call_tool", "notes": {_json(notes)}, "tool_call": {{"tool_id": {_json(tool_id)}, "params": '
    inside: Parts = (params,) if isinstance(params, Slot) else _object(params)
    program: Parts = ("\n<channel:code>\n", code, "\n</channel:code>") if code else ()
    return _build_envelope(thinking, (head, *inside, "}}"), program, edition)


def build_complete_reply(
    answer: Sequence[str | Slot],
    *,
    thinking: str,
    notes: str = "",
    followups: Sequence[str] = (),
    summary: str = "",
    edition: int = 1,
) -> Parts:
    """Return a reply that ends the turn with this answer."""
    notes_field = f'"notes": {_json(notes)}, ' if notes else ""
    end = f', "suggested_followups": {_json(list(followups))}}}'
    decision = (f'{{"action": "complete", {notes_field}"final_answer": ', *_value(TextTemplate(tuple(answer))), end)
    after = (f"\n<channel:summary>\n{_without_tags(summary)}\n</channel:summary>",) if summary else ()
    return _build_envelope(thinking, decision, after, edition)


def _build_envelope(thinking: str, decision: Parts, after: Parts, edition: int) -> Parts:
    name = next(channel.taught_name for channel in declared_channels(edition) if channel.name == DECISION)
    thought = _without_tags(thinking)[:MAX_THINKING_CHARS]
    opening = f"<channel:thinking>\n{thought}\n</channel:thinking>\n<channel:{name}>\n"
    return _join_strings((opening, *decision, f"\n</channel:{name}>", *after))


def _object(params: Mapping[str, Value]) -> Parts:
    parts: list[str | Slot] = ["{"]
    for n, (name, value) in enumerate(params.items()):
        parts += [f"{', ' if n else ''}{_json(name)}: ", *_value(value)]
    return (*parts, "}")


def _value(value: Value) -> Parts:
    match value:
        case Slot(form="string"):
            return ('"', value, '"')
        case Slot():
            return (value,)
        case TextTemplate(parts):
            inner = [part if isinstance(part, Slot) else escape_json(part) for part in parts]
            return ('"', *inner, '"')
        case msgspec.Raw():
            return (bytes(value).decode(),)
        case _:
            return (_json(value),)


def escape_json(text: str) -> str:
    """Return the text escaped for the inside of a JSON string."""
    return _json(text)[1:-1]


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _without_tags(text: str) -> str:
    """Return text that may quote the user, without `<`, so that it cannot open a channel tag."""
    return text.replace("<", "‹").strip()


def _join_strings(parts: Parts) -> Parts:
    """Join adjacent strings."""
    found: list[str | Slot] = []
    for part in parts:
        if isinstance(part, str) and found and isinstance(found[-1], str):
            found[-1] += part
        elif part != "":
            found.append(part)
    return tuple(found)
