"""Loads the instruction texts of the system prompt from the package: by version for edition 1, as sections for 2."""

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from timeloom.core.render.v2.system.sections import InstructionSection, parse_section

INSTRUCTIONS_VERSION: Final = "v1"
"""The version of the texts of edition 1. They never change; edition 2 has sections, and texts `v2` for side calls."""

SECTION_ORDER: Final = (
    "agent",
    "reply",
    "native",
    "examples",
    "correcting",
    "one_action",
    "several_actions",
    "timeline",
    "paths",
    "forgetting",
    "plans",
    "notes",
    "citations",
    "ending",
    "channels",
    "output",
)
"""The sections of edition 2 in the order of the system text. A new section takes its place here; its file has the
version that it starts with. A changed section gets the next version."""

_LAST_SIDE_EDITION: Final = 2
"""The last edition that changed the texts of side calls."""

_PACKAGE: Final = "timeloom.runtime.prompt.instructions"


@cache
def load_instructions(version: str = INSTRUCTIONS_VERSION) -> dict[str, str]:
    """Return every text of that version by its name."""
    return _load_folder(resources.files("timeloom.runtime.prompt.instructions"), version)


@cache
def load_side_instructions(edition: int) -> dict[str, str]:
    """Return the system texts of calls that are no decision, such as `title` and `compaction`, in that edition."""
    return load_instructions(f"v{min(edition, _LAST_SIDE_EDITION)}")


@cache
def load_native_instructions(version: str = INSTRUCTIONS_VERSION) -> dict[str, str]:
    """Return the texts for native tool calling: those of the version, with their native forms where they differ."""
    native = resources.files("timeloom.runtime.prompt.instructions") / "native"
    return {**load_instructions(version), **_load_folder(native, version)}


def _load_folder(folder: Traversable, version: str) -> dict[str, str]:
    suffix = f".{version}.md"
    files = [file for file in folder.iterdir() if file.name.endswith(suffix)]
    texts = {file.name.removesuffix(suffix): file.read_text("utf-8") for file in files}
    if not texts:
        raise LookupError(f"there are no instruction texts of version {version[:20]!r}")
    return dict(sorted(texts.items()))


@cache
def load_sections() -> tuple[InstructionSection, ...]:
    """Return the sections of edition 2 in their order."""
    folder = resources.files(_PACKAGE) / "sections"
    return tuple(parse_section(name, (folder / f"{name}.md").read_text("utf-8")) for name in SECTION_ORDER)
