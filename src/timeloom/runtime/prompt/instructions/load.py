"""Loads the instruction texts of the system prompt from the package, by name and version."""

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

INSTRUCTIONS_VERSION: Final = "v1"
"""The version that new turns use. A changed text gets a new version; old versions stay readable."""


@cache
def load_instructions(version: str = INSTRUCTIONS_VERSION) -> dict[str, str]:
    """Return every text of that version by its name."""
    return _load_folder(resources.files("timeloom.runtime.prompt.instructions"), version)


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
