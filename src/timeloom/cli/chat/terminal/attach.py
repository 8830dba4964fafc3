"""Reads text files that the user attaches to the next message."""

from pathlib import Path

from timeloom.agent.text_file import AttachError, read_text_file
from timeloom.cli.sanitize import one_line
from timeloom.runtime.turn.attachments import IncomingFile


def read_attachment(typed_path: str) -> IncomingFile:
    """Read the text file at the path that the user typed, which may be quoted; raises `AttachError`."""
    try:
        return read_text_file(Path(typed_path.strip().strip("'\"")).expanduser())
    except ValueError as error:
        raise AttachError(f"{one_line(typed_path, 80)} is not a path of a file") from error


__all__ = ["AttachError", "read_attachment"]
