"""Explains validation errors to clients."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import inspect

_ENUM: Final = re.compile(r"Invalid enum value .* - at `\$(\S*)`", re.DOTALL)
_EMPTY: Final = re.compile(r"Expected `\w+` of length >= 1 - at `\$\.(\S+)`")
_STEP: Final = re.compile(r"\.(\w+)|\[")


def explain_validation_error(error: Exception, kind: type[object]) -> str:
    """Return the message of the error: an empty field by its name, an invalid enum value with the allowed ones."""
    if empty := _EMPTY.fullmatch(str(error)):
        return f"{empty.group(1)} must not be empty"
    match = _ENUM.fullmatch(str(error))
    if not match or not isinstance(error, msgspec.ValidationError):
        return str(error)
    choices = _allowed_values(inspect.type_info(kind), [step.group(1) for step in _STEP.finditer(match.group(1))])
    return f"{error}; it must be one of {', '.join(dict.fromkeys(choices))}" if choices else str(error)


def _allowed_values(kind: inspect.Type, steps: Sequence[str | None]) -> list[str]:
    """Return the allowed values at that location; a step is a field name, or None for the items of a list."""
    match kind:
        case inspect.Metadata(type=inner):
            return _allowed_values(inner, steps)
        case inspect.UnionType(types=types):
            return [choice for one in types for choice in _allowed_values(one, steps)]
        case inspect.LiteralType(values=values) if not steps:
            return [str(value) for value in values]
        case inspect.StructType(fields=fields) if steps:
            return [
                name
                for field in fields
                if field.encode_name == steps[0]
                for name in _allowed_values(field.type, steps[1:])
            ]
        case inspect.VarTupleType(item_type=inner) | inspect.ListType(item_type=inner) if steps:
            return _allowed_values(inner, steps[1:])
        case _:
            return []
