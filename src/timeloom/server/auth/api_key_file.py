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
from timeloom.server.auth.api_keys import ApiKey, ApiKeySet, hash_token
from timeloom.server.auth.principal import Principal

CHECK_INTERVAL_S: Final = 1.0
"""Seconds between two checks for changes; a removed key stays valid for so long."""

_SECTION: Final = re.compile(r"(?:^[ \t]*#.*\n)*^[ \t]*\[\[[ \t]*keys[ \t]*\]\]", re.MULTILINE)
"""The start of a key's section, with the comments before it."""

_logger = logging.getLogger(__name__)


class _KeyFileContent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keys: tuple[ApiKey, ...] = ()


class ApiKeyFile:
    """Verifies the API keys of a file; if the file becomes unreadable, the keys read before stay valid."""

    def __init__(self, path: Path, uptime: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._uptime = uptime
        self._file_state = _stat_file(path)
        self._keys = ApiKeySet(read_keys(path))
        self._checked_s = uptime()

    async def find_principal(self, token: str) -> Principal | None:
        """Return the principal of the key; None if the file does not contain it."""
        self._reload_if_changed()
        return await self._keys.find_principal(token)

    def _reload_if_changed(self) -> None:
        if self._uptime() - self._checked_s < CHECK_INTERVAL_S:
            return
        self._checked_s = self._uptime()
        state = _stat_file(self._path)
        if state == self._file_state:
            return
        try:
            self._keys = ApiKeySet(read_keys(self._path))
        except CodedError as error:
            _logger.warning("the API key file cannot be reloaded", extra={"fields": {"code": error.code}})
            return
        self._file_state = state


def read_keys(path: Path) -> tuple[ApiKey, ...]:
    """Return the keys in a file; raise if it cannot be read or is not a key file."""
    try:
        return _parse_keys(path.read_text(encoding="utf-8"), path.name)
    except OSError as error:
        raise CodedError("config_unreadable", f"the key file {path.name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CodedError("config_unreadable", f"{path.name} is not a key file: {error}") from error


def add_key(path: Path, token: str, principal: Principal) -> None:
    """Add the hash of a key to the file; a new file is created with mode 0600."""
    before = ""
    if path.exists():
        read_keys(path)
        before = path.read_text(encoding="utf-8").rstrip("\n") + "\n\n"
    _replace_file(path, before + _to_toml(ApiKey(sha256=hash_token(token), **msgspec.structs.asdict(principal))))


def remove_keys(path: Path, removed: Collection[ApiKey]) -> None:
    """Remove these keys from the file; the rest of its text stays unchanged where possible."""
    text = path.read_text(encoding="utf-8")
    remaining = tuple(key for key in read_keys(path) if key not in removed)
    starts = [0, *(found.start() for found in _SECTION.finditer(text)), len(text)]
    sections = [text[start:stop] for start, stop in pairwise(starts)]
    after = "".join(one for one in sections if not any(key.sha256 in one for key in removed))
    try:
        is_intact = _parse_keys(after, path.name) == remaining
    except CodedError:
        is_intact = False
    # The file was edited by hand in another form, so the remaining keys are rewritten without comments.
    _replace_file(path, after if is_intact else "\n".join(map(_to_toml, remaining)))


def _replace_file(path: Path, text: str) -> None:
    # A file that cannot be read again would lock out all users.
    _parse_keys(text, path.name)
    new_file = path.with_name(f".{path.name}.new")
    descriptor = os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new_file.replace(path)


def _parse_keys(text: str, name: str) -> tuple[ApiKey, ...]:
    try:
        return msgspec.convert(tomllib.loads(text), _KeyFileContent).keys
    except (ValueError, RecursionError) as error:
        raise CodedError("config_unreadable", f"{name} is not a key file: {error}") from error


def _to_toml(key: ApiKey) -> str:
    # The strings of JSON are strings of TOML, as long as they hold no control characters.
    lines = [f"{name} = {msgspec.json.encode(value).decode()}\n" for name, value in msgspec.structs.asdict(key).items()]
    return f"[[keys]]\n{''.join(lines)}"


def _stat_file(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
