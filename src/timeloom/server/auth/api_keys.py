"""Reads and edits the file of API key hashes; the server reloads the file when it changes."""

import logging
import os
import re
import time
import tomllib
from collections.abc import Callable, Collection
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from timeloom.core.codes import CodedError
from timeloom.server.auth.authenticate import Caller, Key, Keys, hashed

LOOK_S: Final = 1.0
"""Seconds between two checks for changes; a removed key stays valid for so long."""

_SECTION: Final = re.compile(r"(?:^[ \t]*#.*\n)*^[ \t]*\[\[[ \t]*keys[ \t]*\]\]", re.MULTILINE)
"""The start of a key's section, with the comments before it."""

_logger = logging.getLogger(__name__)


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keys: tuple[Key, ...] = ()


class KeyFile:
    """Verifies the API keys of a file; if the file becomes unreadable, the keys read before stay valid."""

    def __init__(self, path: Path, uptime: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._uptime = uptime
        self._seen = _state(path)
        self._keys = Keys(read_keys(path))
        self._looked_s = uptime()

    async def whose(self, token: str) -> Caller | None:
        """Return the principal of the key; None if the file does not contain it."""
        self._look()
        return await self._keys.whose(token)

    def _look(self) -> None:
        if self._uptime() - self._looked_s < LOOK_S:
            return
        self._looked_s = self._uptime()
        state = _state(self._path)
        if state == self._seen:
            return
        try:
            self._keys = Keys(read_keys(self._path))
        except CodedError as error:
            _logger.warning("the API key file cannot be reloaded", extra={"fields": {"code": error.code}})
            return
        self._seen = state


def read_keys(path: Path) -> tuple[Key, ...]:
    """Return the keys in a file; raise if it cannot be read or is not a key file."""
    try:
        return _parsed(path.read_text(encoding="utf-8"), path.name)
    except OSError as error:
        raise CodedError("config_unreadable", f"the key file {path.name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CodedError("config_unreadable", f"{path.name} is not a key file: {error}") from error


def add_key(path: Path, token: str, caller: Caller) -> None:
    """Add the hash of a key to the file; a new file is created with mode 0600."""
    before = ""
    if path.exists():
        read_keys(path)
        before = path.read_text(encoding="utf-8").rstrip("\n") + "\n\n"
    _replace(path, before + _written(Key(sha256=hashed(token), **msgspec.structs.asdict(caller))))


def remove_keys(path: Path, gone: Collection[Key]) -> None:
    """Remove these keys from the file; the rest of its text stays unchanged where possible."""
    text = path.read_text(encoding="utf-8")
    left = tuple(key for key in read_keys(path) if key not in gone)
    starts = [0, *(found.start() for found in _SECTION.finditer(text)), len(text)]
    sections = [text[start:stop] for start, stop in pairwise(starts)]
    after = "".join(one for one in sections if not any(key.sha256 in one for key in gone))
    try:
        is_whole = _parsed(after, path.name) == left
    except CodedError:
        is_whole = False
    # The file was edited by hand in another form, so the remaining keys are rewritten without comments.
    _replace(path, after if is_whole else "\n".join(map(_written, left)))


def _replace(path: Path, text: str) -> None:
    # A file that cannot be read again would lock out all users.
    _parsed(text, path.name)
    fresh = path.with_name(f".{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _parsed(text: str, name: str) -> tuple[Key, ...]:
    try:
        return msgspec.convert(tomllib.loads(text), _Content).keys
    except (ValueError, RecursionError) as error:
        raise CodedError("config_unreadable", f"{name} is not a key file: {error}") from error


def _written(key: Key) -> str:
    # The strings of JSON are strings of TOML, as long as they hold no control characters.
    lines = [f"{name} = {msgspec.json.encode(value).decode()}\n" for name, value in msgspec.structs.asdict(key).items()]
    return f"[[keys]]\n{''.join(lines)}"


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
