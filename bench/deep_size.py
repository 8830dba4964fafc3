"""Adds up the memory of an object and of all that only it refers to."""

import sys
from array import array
from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import cast

import msgspec


class DeepSize:
    """Counts each object once, so that shared objects belong to the first that is asked about."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def bytes_of(self, value: object) -> int:
        """Return the bytes of the value and of what it contains, as far as nothing counted before contains it."""
        total, rest = 0, [value]
        while rest:
            one = rest.pop()
            # Types, functions and enum members belong to the program, not to the data.
            if id(one) in self._seen or one is None or isinstance(one, type | Enum | bool):
                continue
            self._seen.add(id(one))
            total += sys.getsizeof(one)
            rest.extend(_parts_of(one))
        return total


def _parts_of(value: object) -> Iterable[object]:
    if isinstance(value, str | bytes | int | float | array):
        return ()
    if isinstance(value, Mapping):
        known = cast(Mapping[object, object], value)
        return [part for pair in known.items() for part in pair]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return list(cast(Iterable[object], value))
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    slots = [getattr(value, name, None) for name in getattr(type(value), "__slots__", ())]
    return [*slots, *getattr(value, "__dict__", {}).values()]
