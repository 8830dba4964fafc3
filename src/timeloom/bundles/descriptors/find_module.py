"""Imports a module that a bundle names: of its own package or folder first, then an installed one.

So two bundles that both have a `tools_descriptor.py` never get each other's.
"""

import importlib
import importlib.util
import sys
import threading
import traceback
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from timeloom.bundles.descriptors.places import malformed

WAIT_S: Final = 30.0
"""Longest wait for another thread that imports modules of the same bundle. Less fails large libraries; more keeps turns
waiting for an import that hangs."""

_locks: Final[defaultdict[str, threading.RLock]] = defaultdict(threading.RLock)
"""One lock per owner, so that an import that hangs stops one bundle only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleOwner:
    """The bundle for which modules are imported."""

    module: str
    """The name of the module whose package or folder is searched first."""
    bundle: str = ""
    """The name of the bundle, which may stand before the names of its modules: `shop.tools`."""
    wait_s: float = WAIT_S

    @property
    def package(self) -> str:
        """The package of the module; empty if it has none."""
        return getattr(sys.modules.get(self.module), "__package__", None) or ""

    @property
    def file(self) -> Path | None:
        """The file of the module; None if it has none."""
        file = getattr(sys.modules.get(self.module), "__file__", None)
        return Path(file) if file else None

    def own_name(self, name: str) -> str:
        """Return the name that the module has in the package or folder."""
        first, _, rest = name.partition(".")
        folder = self.file.parent.name if self.file else ""
        known = {self.package.rpartition(".")[2], self.bundle.replace("-", "_"), folder}
        return rest if rest and first in known else name


def find_module(name: str, owner: ModuleOwner, place: str) -> ModuleType:
    """Import the module; raises `descriptor_malformed`, which names the place and the error with its file and line."""
    lock = _locks[owner.module]
    if not lock.acquire(timeout=owner.wait_s):
        raise malformed(place, f"the module {name} waits for another import of the bundle {owner.bundle} that hangs")
    try:
        return _import(name, owner)
    except (Exception, SystemExit) as error:
        raise malformed(place, f"the module {name} cannot be imported: {_describe(error)}") from error
    finally:
        lock.release()


def _import(name: str, owner: ModuleOwner) -> ModuleType:
    own = owner.own_name(name)
    if owner.package:
        if _exists(full := f"{owner.package}.{own}"):
            return importlib.import_module(full)
    elif file := _file_beside(owner.file, own):
        return _load_file(f"{owner.module}__{own.replace('.', '__')}", file)
    return importlib.import_module(name)


def _exists(full: str) -> bool:
    try:
        return importlib.util.find_spec(full) is not None
    except ModuleNotFoundError:
        return False


def _file_beside(file: Path | None, own: str) -> Path | None:
    found = file.parent.joinpath(*own.split(".")).with_suffix(".py") if file else None
    return found if found and found.is_file() else None


def _load_file(name: str, file: Path) -> ModuleType:
    if known := sys.modules.get(name):
        return known
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec and spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _describe(error: BaseException) -> str:
    """Return the error with the file and line where it was raised."""
    text = f"{type(error).__name__}: {error}"
    frames = [one for one in traceback.extract_tb(error.__traceback__) if "importlib" not in one.filename]
    last = frames[-1] if frames else None
    return f"{text} ({Path(last.filename).name}, line {last.lineno})" if last and last.filename != __file__ else text
