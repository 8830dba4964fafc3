"""Loads the instruction texts of the system prompt from the package, by name and version."""

from functools import cache
from importlib import resources
from typing import Final

INSTRUCTIONS_VERSION: Final = "v1"
"""The version that new turns use. A changed text gets a new version; old versions stay readable."""


@cache
def load_instructions(version: str = INSTRUCTIONS_VERSION) -> dict[str, str]:
    """Return every text of that version by its name."""
    suffix = f".{version}.md"
    files = resources.files("timeloom.runtime.prompt.instructions").iterdir()
    texts = {file.name.removesuffix(suffix): file.read_text("utf-8") for file in files if file.name.endswith(suffix)}
    if not texts:
        raise LookupError(f"there are no instruction texts of version {version[:20]!r}")
    return dict(sorted(texts.items()))
