"""Describes the tools that a program may call as functions of importable modules."""

import keyword
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom.ports.sandbox import ToolStub
from timeloom.ports.tool import ToolSpec

_NON_IDENTIFIER: Final = re.compile(r"\W", re.ASCII)
_DOC_CHARS: Final = 2_000


class _ParamsSchema(msgspec.Struct):
    properties: dict[str, msgspec.Raw] = {}
    required: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[str, ...]:
        """The parameters in the order of a Python signature: required ones first."""
        return tuple(sorted(self.properties, key=lambda name: name not in self.required))


def make_tool_stubs(specs: Sequence[ToolSpec]) -> tuple[ToolStub, ...]:
    """Return a stub for each tool id `family.name`; the first tool wins if two map to the same name."""
    found: dict[tuple[str, str], ToolStub] = {}
    for spec in specs:
        module, _, function = spec.tool_id.rpartition(".")
        name = _to_identifier(module) or "tools", _to_identifier(function)
        doc = "\n\n".join(filter(None, (spec.purpose, spec.description)))[:_DOC_CHARS]
        params = msgspec.json.decode(spec.params_schema, type=_ParamsSchema).order
        stub = ToolStub(tool_id=spec.tool_id, module=name[0], function=name[1], params=params, doc=doc)
        found.setdefault(name, stub)
    return tuple(found.values())


def _to_identifier(text: str) -> str:
    """Return the text as a valid Python identifier."""
    name = _NON_IDENTIFIER.sub("_", text)
    return f"{name}_" if keyword.iskeyword(name) else f"_{name}" if name[:1].isdigit() else name
