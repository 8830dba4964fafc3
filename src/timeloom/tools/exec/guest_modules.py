"""Describes the tools that a program may call as functions of importable modules."""

import keyword
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom.ports.sandbox import ToolStub
from timeloom.ports.tool import ToolSpec

_NOT_OF_A_NAME: Final = re.compile(r"\W", re.ASCII)
_DOC_CHARS: Final = 2_000


class _Schema(msgspec.Struct):
    properties: dict[str, msgspec.Raw] = {}
    required: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[str, ...]:
        """The parameters in the order of a Python signature: required ones first."""
        return tuple(sorted(self.properties, key=lambda name: name not in self.required))


def stubs_of(specs: Sequence[ToolSpec]) -> tuple[ToolStub, ...]:
    """Return a stub for each tool id `family.name`; the first tool wins if two map to the same name."""
    found: dict[tuple[str, str], ToolStub] = {}
    for spec in specs:
        module, _, function = spec.tool_id.rpartition(".")
        place = _name(module) or "tools", _name(function)
        doc = "\n\n".join(filter(None, (spec.purpose, spec.description)))[:_DOC_CHARS]
        params = msgspec.json.decode(spec.params_schema, type=_Schema).order
        stub = ToolStub(tool_id=spec.tool_id, module=place[0], function=place[1], params=params, doc=doc)
        found.setdefault(place, stub)
    return tuple(found.values())


def _name(text: str) -> str:
    """Return the text as a valid Python identifier."""
    name = _NOT_OF_A_NAME.sub("_", text)
    return f"{name}_" if keyword.iskeyword(name) else f"_{name}" if name[:1].isdigit() else name
