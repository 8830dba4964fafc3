"""Replies: the envelope of channels and decision, written by code, with places that the model fills."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from timeloom.core.stream.channels import DECISION
from timeloom_local.engine import Writing

MAX_THINKING_CHARS: Final = 600


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """A place that the model fills; `form` is what its text becomes there.

    `string` is the inside of a JSON string, `lines` the items of a JSON array of the numbered lines, `raw` the text
    itself.
    """

    writing: Writing
    form: Literal["string", "lines", "raw"] = "string"


class Mixed(msgspec.Struct, frozen=True):
    """A JSON string of words and places."""

    parts: tuple[str | Slot, ...]


Value = str | int | float | bool | Sequence[str] | Slot | Mixed | msgspec.Raw
"""A parameter: something known, or a place."""

Parts = tuple[str | Slot, ...]


def call(
    tool_id: str, params: Mapping[str, Value] | Slot, *, thinking: str, notes: str = "", code: Slot | None = None
) -> Parts:
    """A reply that calls a tool; `params` may be one place for the whole object."""
    head = f'{{"action": "call_tool", "notes": {_json(notes)}, "tool_call": {{"tool_id": {_json(tool_id)}, "params": '
    inside: Parts = (params,) if isinstance(params, Slot) else _object(params)
    program: Parts = ("\n<channel:code>\n", code, "\n</channel:code>") if code else ()
    return _reply(thinking, (head, *inside, "}}"), program)


def complete(
    answer: Sequence[str | Slot],
    *,
    thinking: str,
    notes: str = "",
    followups: Sequence[str] = (),
    summary: str = "",
) -> Parts:
    """A reply that ends the turn with this answer."""
    said = f'"notes": {_json(notes)}, ' if notes else ""
    end = f', "suggested_followups": {_json(list(followups))}}}'
    decision = (f'{{"action": "complete", {said}"final_answer": ', *_value(Mixed(tuple(answer))), end)
    return _reply(
        thinking, decision, (f"\n<channel:summary>\n{_prose(summary)}\n</channel:summary>",) if summary else ()
    )


def _reply(thinking: str, decision: Parts, after: Parts) -> Parts:
    opening = (
        f"<channel:thinking>\n{_prose(thinking)[:MAX_THINKING_CHARS]}\n</channel:thinking>\n<channel:{DECISION}>\n"
    )
    return _joined((opening, *decision, f"\n</channel:{DECISION}>", *after))


def _object(params: Mapping[str, Value]) -> Parts:
    parts: list[str | Slot] = ["{"]
    for n, (name, value) in enumerate(params.items()):
        parts += [f"{', ' if n else ''}{_json(name)}: ", *_value(value)]
    return (*parts, "}")


def _value(value: Value) -> Parts:
    match value:
        case Slot(form="lines"):
            return ("[", value, "]")
        case Slot(form="string"):
            return ('"', value, '"')
        case Slot():
            return (value,)
        case Mixed(parts):
            inner = [part if isinstance(part, Slot) else escaped(part) for part in parts]
            return ('"', *inner, '"')
        case msgspec.Raw():
            return (bytes(value).decode(),)
        case _:
            return (_json(value),)


def escaped(text: str) -> str:
    """The text as it stands inside a JSON string."""
    return _json(text)[1:-1]


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _prose(text: str) -> str:
    """Words of our own that quote the user's: no tag can begin in them."""
    return text.replace("<", "‹").strip()


def _joined(parts: Parts) -> Parts:
    """The parts, neighbouring words joined."""
    found: list[str | Slot] = []
    for part in parts:
        if isinstance(part, str) and found and isinstance(found[-1], str):
            found[-1] += part
        elif part != "":
            found.append(part)
    return tuple(found)
