"""Restricts the file access of a process and its children with Landlock, if the kernel supports it."""

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from typing import Final

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_ASK_VERSION: Final = 1
_PATH_BENEATH: Final = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_RIGHTS_ON_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_DEVICE_RIGHTS: Final = 1 << 6 | 1 << 11
"""The rights to create device nodes, which are never granted."""

_FILE_RIGHTS: Final = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""All file rights, by the Landlock version that introduced the last of them."""

_TCP: Final = 0b11
_TCP_SINCE: Final = 4
_SCOPES: Final = 0b11
"""Forbids connecting to abstract Unix sockets of other processes and sending them signals."""

_SCOPES_SINCE: Final = 6

_library: Final = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Return the kernel's Landlock version; 0 if it has none."""
    return max(0, _library.syscall(_CREATE_RULESET, None, 0, _ASK_VERSION))


def restrict_paths(readable: Iterable[str], writable: Iterable[str], listed: Iterable[str] = ()) -> bool:
    """Restrict this thread and its children to these paths; return False if the kernel lacks Landlock.

    Folders in `listed` can be listed, with their subfolders, but no file in them can be opened. The thread must have
    set `no_new_privs`. Missing paths are ignored.
    """
    abi = version()
    if not abi:
        return False
    all_rights = next(rights for since, rights in sorted(_FILE_RIGHTS.items(), reverse=True) if since <= abi)
    rules = _check_result(_library.syscall(_CREATE_RULESET, *_ruleset(all_rights, abi), 0))
    try:
        for path in readable:
            _allow_path(rules, path, all_rights & (_EXECUTE | _READ_FILE | _READ_DIR))
        for path in writable:
            _allow_path(rules, path, all_rights & ~(_DEVICE_RIGHTS | _IOCTL_DEV))
        for path in listed:
            _allow_path(rules, path, _READ_DIR)
        _check_result(_library.syscall(_RESTRICT_SELF, rules, 0))
    finally:
        os.close(rules)
    return True


def _ruleset(all_rights: int, abi: int) -> tuple[bytes, int]:
    words = [all_rights]
    if abi >= _TCP_SINCE:
        words.append(_TCP)
    if abi >= _SCOPES_SINCE:
        words.append(_SCOPES)
    ruleset = struct.pack(f"={len(words)}Q", *words)
    return ruleset, len(ruleset)


def _allow_path(rules: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        allowed = rights if stat.S_ISDIR(os.fstat(descriptor).st_mode) else rights & _RIGHTS_ON_FILES
        _check_result(_library.syscall(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", allowed, descriptor), 0))
    finally:
        os.close(descriptor)


def _check_result(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "Landlock refused to restrict the executor")
    return result
