"""Builds llama.cpp grammars that bound the text of the small model.

llama.cpp allows the model's end token wherever the grammar is complete, so a bounded text may end early.
"""

import re
from collections.abc import Mapping
from typing import Final, cast

import msgspec

MAX_STRING_CHARS: Final = 120
"""Longest string in parameters; without a bound, the model may never stop."""

MAX_ITEMS: Final = 4
"""Maximum number of items of a list in parameters."""

PROSE: Final = r"[^\x00-\x1f\x7f<>\[\]{}|]"
"""A character of prose, without the special characters of tags, citations and JSON."""


def prose(max_chars: int) -> str:
    """Return a grammar for paragraphs of prose."""
    return f"root ::= [A-Za-z0-9*-] ({PROSE} | [\\n]){{1,{max_chars}}}"


def sentence(max_chars: int) -> str:
    """Return a grammar for prose on one line."""
    return f"root ::= [A-Za-z0-9] {PROSE}{{1,{max_chars}}}"


def parameters(schema: str) -> str:
    """Return a grammar for the JSON object of a tool's required parameters."""
    tree = msgspec.json.decode(schema, type=dict[str, object])
    rules = _GrammarRules(cast("Mapping[str, object]", tree.get("$defs") or {}))
    rules.add(rules.value({"type": "object", **tree}, 0), "root")
    return rules.text()


class _GrammarRules:
    """Collects the rules of one grammar from a JSON schema."""

    def __init__(self, definitions: Mapping[str, object]) -> None:
        self._definitions = definitions
        self._rules = {
            "string": f'"\\"" ([^"\\\\\\x00-\\x1f\\x7f<>] | "\\\\" ["\\\\n]){{1,{MAX_STRING_CHARS}}} "\\""',
            "integer": '"-"? ("0" | [1-9] [0-9]{0,8})',
            "number": 'integer ("." [0-9]{1,4})?',
            "boolean": '"true" | "false"',
        }

    def add(self, body: str, name: str = "") -> str:
        """Add a rule under that name, or under an unused one, and return the name."""
        name = name or f"r{len(self._rules)}"
        self._rules[name] = body
        return name

    def text(self) -> str:
        """Return the text of the grammar."""
        return "\n".join(f"{name} ::= {body}" for name, body in reversed(self._rules.items()))

    def value(self, schema: Mapping[str, object], depth: int) -> str:
        """Return the body of the rule for a value of that schema."""
        schema = self._resolve(schema)
        if choices := schema.get("enum"):
            return " | ".join(_literal(choice) for choice in cast("list[object]", choices))
        match schema.get("type"):
            case "object":
                return self._object(schema, depth)
            case "array":
                inner = cast("Mapping[str, object]", schema.get("items") or {"type": "string"})
                item = self.add(self.value(inner, depth + 1))
                return f'"[" {item} ("," {item}){{0,{MAX_ITEMS - 1}}} "]"'
            case "integer" | "number" | "boolean" as kind:
                return str(kind)
            case _:
                return "string"

    def _object(self, schema: Mapping[str, object], depth: int) -> str:
        properties = cast("Mapping[str, Mapping[str, object]]", schema.get("properties") or {})
        required = [name for name in cast("list[str]", schema.get("required") or []) if name in properties]
        if not required or depth > _MAX_DEPTH:
            return '"{}"'
        parts: list[str] = []
        for name in required:
            body = self.add(self.value(properties[name], depth + 1))
            parts.append(f"{_literal_text(msgspec.json.encode(name).decode() + ':')} {body}")
        return f'"{{" {_literal_text(",").join(f" {part} " for part in parts)} "}}"'

    def _resolve(self, schema: Mapping[str, object]) -> Mapping[str, object]:
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return cast("Mapping[str, object]", self._definitions.get(reference.rpartition("/")[2]) or {})
        options = [cast("Mapping[str, object]", one) for one in cast("list[object]", schema.get("anyOf") or [])]
        named = [one for one in options if one.get("type") != "null"]
        return self._resolve(named[0]) if named else schema


_MAX_DEPTH: Final = 6
_SPECIAL: Final = re.compile(r'(["\\])')


def _literal(value: object) -> str:
    return _literal_text(msgspec.json.encode(value).decode())


def _literal_text(text: str) -> str:
    return '"' + _SPECIAL.sub(r"\\\1", text) + '"'
