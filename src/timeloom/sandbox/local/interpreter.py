"""Finds the interpreter for programs and the folders that it needs."""

import errno
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from timeloom.ports.sandbox import SandboxUnavailableError
from timeloom.sandbox.guest import BOOTSTRAP, local_start

SETUP_FILE: Final = "setup"
START_FILE: Final = "start.pyc"

_PROBE: Final = """
import __future__, ast, json, marshal, py_compile, sys
_, start, start_file, bootstrap, setup_file = sys.argv
py_compile.compile(start, start_file, "start.py", doraise=True)
with open(bootstrap, "rb") as file:
    tree = ast.parse(file.read())
# What tells the compiler something would be imported all the same, and be looked for first.
tree.body = [each for each in tree.body if getattr(each, "module", "") != "__future__"]
code = compile(tree, "bootstrap.py", "exec", __future__.annotations.compiler_flag, dont_inherit=True)
seen = (sys.prefix, sys.base_prefix, "/usr")
with open(setup_file, "wb") as file:
    marshal.dump((sys.prefix, sys.exec_prefix, [place for place in sys.path if place.startswith(seen)], code), file)
print(json.dumps({"prefix": sys.prefix, "base": sys.base_prefix, "version": sys.version_info[:2],
                  "python": sys.executable}))
"""
_OLDEST: Final = (3, 9)
_PROBE_TIMEOUT_S: Final = 30.0
_INSTALLATION_PARTS: Final = ("bin", "lib", "lib64")
_ENVIRONMENT_PARTS: Final = (*_INSTALLATION_PARTS, "include", "share", "pyvenv.cfg")

SYSTEM_FOLDERS: Final = tuple(map(Path, ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")))
"""Folders of this machine that every program sees, with any interpreter."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter, and the folders and files that it needs besides the system folders."""

    python: Path
    parts: tuple[Path, ...]
    links: tuple[tuple[Path, Path], ...] = ()
    """Paths outside of these parts that must be links, and their targets; their parent folders stay hidden."""


class _InterpreterInfo(msgspec.Struct, frozen=True):
    prefix: str
    base: str
    python: str
    version: tuple[int, int]


def find_interpreter(python: Path, folder: Path) -> Interpreter:
    """Run the interpreter at that path and return the paths that it uses.

    It also compiles the start files into the folder, which it would otherwise do again at every start.
    """
    files = [Path(local_start.__file__), folder / START_FILE, BOOTSTRAP, folder / SETUP_FILE]
    try:
        probe = subprocess.run(
            [python, "-I", "-c", _PROBE, *files],
            env={},
            cwd="/",
            capture_output=True,
            timeout=_PROBE_TIMEOUT_S,
            check=True,
        )
        info = msgspec.json.decode(probe.stdout, type=_InterpreterInfo)
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        reason = type(error).__name__
        raise SandboxUnavailableError(f"the Python for programs does not run ({reason}); set another one") from error
    for name in (START_FILE, SETUP_FILE):
        (folder / name).chmod(0o644)
    if info.version < _OLDEST:
        raise SandboxUnavailableError("the Python for programs is older than 3.9; set another one")
    # The path may be a script that starts the interpreter, so use the path that the interpreter reports.
    found = Path(info.python)
    prefixes = dict.fromkeys([Path(info.prefix), Path(info.base)])
    parts = [part for prefix in prefixes if not _is_system(prefix) for part in _needed_parts(prefix)]
    if not _is_visible(found.resolve(), parts):
        parts.append(found.resolve())
    return Interpreter(found, tuple(parts), tuple(_links(found, parts)))


def _links(python: Path, parts: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    """Yield the path outside of the parts, if any, through which links lead to the interpreter."""
    path = python
    while _is_visible(path, parts) and path.is_symlink():
        path = Path(os.path.normpath(path.parent / path.readlink()))
    if not _is_visible(path, parts):
        yield path, python.resolve()


def _is_visible(path: Path, parts: Sequence[Path]) -> bool:
    return _is_system(path) or any(path.is_relative_to(part) for part in parts)


def _is_system(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in SYSTEM_FOLDERS)


def _needed_parts(prefix: Path) -> Iterator[Path]:
    """Yield the folders of a prefix that an interpreter needs; its other folders stay hidden."""
    names = _ENVIRONMENT_PARTS if (prefix / "pyvenv.cfg").exists() else _INSTALLATION_PARTS
    for name in names:
        if (prefix / name).exists():
            yield prefix / name
