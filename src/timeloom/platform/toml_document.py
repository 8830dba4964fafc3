"""Parses a TOML document and names its faults by line."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from timeloom.platform.toml_lines import KeyPath, TooManyDotsError, key_lines, line_of, statements


class TomlError(ValueError):
    """A file cannot be read, or is no TOML; the message names the file and, where it is known, the line."""


@dataclass(frozen=True, slots=True)
class TomlDocument:
    """The values of a document, and the line of each key."""

    name: str
    """The name of the file, for errors."""
    values: Mapping[str, object]
    lines: Mapping[KeyPath, int]

    def line_of(self, path: KeyPath) -> int:
        """Return the line of a key, or of the table that contains it."""
        return line_of(self.lines, path)

    def locate(self, path: KeyPath) -> str:
        """Return the file and the line of a key, for errors."""
        return f"{self.name}, line {self.line_of(path)}"


def read_toml_text(path: Path, max_bytes: int, *, regular: bool = False) -> str:
    """Return the text of a file up to `max_bytes`, without a byte order mark; `regular` rejects pipes and devices."""
    try:
        if regular and not path.is_file():
            what = "is a broken link" if path.is_symlink() and not path.exists() else "is not a regular file"
            raise TomlError(f"{path.name} {what}")
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise TomlError(f"{path.name} cannot be read: {error.strerror}") from error
    if len(data) > max_bytes:
        raise TomlError(f"{path.name} is larger than {max_bytes} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TomlError(f"{path.name}, line {line}: the bytes are not UTF-8") from error


def parse_toml(text: str, name: str) -> TomlDocument:
    """Parse the text of the file of that name; raises `TomlError`."""
    text = text.replace("\r\n", "\n")
    try:
        for _ in statements(text):
            pass
        # With a final newline the parser reports the line instead of "at end of document".
        values = tomllib.loads(text + "\n")
    except TooManyDotsError as error:
        raise TomlError(f"{name}, line {error.line}: {error}") from error
    except RecursionError as error:
        raise TomlError(f"{name}: values nest too deeply") from error
    except tomllib.TOMLDecodeError as error:
        raise TomlError(f"{name} is not TOML: {error}") from error
    except ValueError as error:
        # The interpreter's limit on digits; its message is meant for programmers.
        raise TomlError(f"{name}: a number has too many digits") from error
    return TomlDocument(name, values, key_lines(text))
