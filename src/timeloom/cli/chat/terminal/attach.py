"""Reads text files that the user attaches to the next message."""

import os
from itertools import islice
from pathlib import Path
from typing import Final

from timeloom.agent.text_file import read_text_file
from timeloom.runtime.turn.attachments import IncomingFile

MAX_LISTED_NAMES: Final = 10_000
"""Most names of a folder that completion reads, so that a huge folder does not stop the terminal."""


def read_attachment(typed_path: str) -> IncomingFile:
    """Read the text file at the path that the user typed, which may be quoted; raises `AttachError`."""
    return read_text_file(Path(typed_path.strip().strip("'\"")).expanduser())


def complete_path(typed: str) -> str:
    """Extend the typed path as far as all matching names agree; a single folder gets a slash."""
    folder, slash, start = typed.rpartition("/")
    opening = folder[:1] if folder[:1] in ("'", '"') else ""
    if not slash and start[:1] in ("'", '"'):
        opening, start = start[:1], start[1:]
    prefix = f"{folder}{slash}" if slash else opening
    listed = Path(prefix.removeprefix(opening) or ".").expanduser()
    try:
        with os.scandir(listed) as found:
            names = [
                f"{one.name}/" if one.is_dir() else one.name
                for one in islice(found, MAX_LISTED_NAMES)
                # Hidden files appear once their dot is typed.
                if one.name.startswith(start) and one.name.isprintable() and (start or not one.name.startswith("."))
            ]
    except (OSError, RuntimeError):
        # Nothing can be listed there: the path stays as it was typed, and /attach itself reports the error.
        return typed
    return prefix + os.path.commonprefix(names) if names else typed  # noqa: RUF071 - by characters, as typed
