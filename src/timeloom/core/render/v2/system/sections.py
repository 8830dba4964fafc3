"""Sections of the system text: each has a version and a condition, and single lines may have conditions too.

A section is a Markdown text with a header:

    version: 1
    when: tool:react.plan
    ---
    # Plans

A condition is a list of facts separated by spaces, all of which must hold. `a|b` holds if one of both does, `!a` if `a`
does not. A line that begins with `[if <condition>] ` stands only if its condition holds. `{{name}}` is replaced by the
value of that name.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

ALWAYS: Final = "always"
"""The condition of a section that every system text contains."""

_LINE: Final = re.compile(r"\[if ([^\]\n]+)\] ")
_PLACEHOLDER: Final = re.compile(r"\{\{([a-z_]+)\}\}")
_GAP: Final = re.compile(r"\n{3,}")


class InstructionSection(msgspec.Struct, frozen=True, kw_only=True):
    """A section of the instructions, with the version and the condition of its header."""

    name: str
    version: int
    when: str
    text: str

    @property
    def label(self) -> str:
        """The name and version as model calls record them."""
        return f"{self.name}.{self.version}"

    def conditions(self) -> Iterable[str]:
        """Return all conditions: that of the section, then those of its lines."""
        return [self.when, *_LINE.findall(self.text)]


def parse_section(name: str, source: str) -> InstructionSection:
    """Return the section with that source; raise `ValueError` if its header is malformed."""
    header, mark, text = source.partition("\n---\n")
    fields = dict(line.split(": ", 1) for line in header.splitlines() if ": " in line)
    if not mark or fields.keys() != {"version", "when"} or not fields["version"].isdecimal():
        raise ValueError(f"the section {name[:60]!r} must begin with the lines version:, when: and ---")
    return InstructionSection(name=name, version=int(fields["version"]), when=fields["when"], text=text.strip())


def render_section(section: InstructionSection, facts: Collection[str], values: Mapping[str, str]) -> str:
    """Return the text of the section for these facts; empty if its condition does not hold."""
    if not holds(section.when, facts):
        return ""
    lines = (_render_line(line, facts) for line in section.text.split("\n"))
    text = "\n".join(line for line in lines if line is not None)
    return _PLACEHOLDER.sub(lambda found: values[found[1]], _GAP.sub("\n\n", text).strip())


def holds(condition: str, facts: Collection[str]) -> bool:
    """Whether the condition holds for these facts."""
    return all(any(_has(fact, facts) for fact in choice.split("|")) for choice in condition.split())


def facts_of_condition(condition: str) -> tuple[str, ...]:
    """Return the facts that the condition names."""
    return tuple(fact.removeprefix("!") for choice in condition.split() for fact in choice.split("|"))


def _has(fact: str, facts: Collection[str]) -> bool:
    if fact.startswith("!"):
        return fact[1:] not in facts
    return fact == ALWAYS or fact in facts


def _render_line(line: str, facts: Collection[str]) -> str | None:
    found = _LINE.match(line)
    if found is None:
        return line
    return line[found.end() :] if holds(found[1], facts) else None
