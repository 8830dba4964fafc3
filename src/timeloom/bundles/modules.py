"""Imports the modules of bundles: those of a folder under a private name, so that equal names do not clash."""

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module, invalidate_caches
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from timeloom.bundles.fault import BundleError
from timeloom.core.codes import CodedError

NAMESPACE: Final = "timeloom_bundles"
"""The package whose sub-packages are the folders of loaded bundles."""

_numbers: Final = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleModules:
    """The modules that a bundle's references name: its own ones first, then installed ones."""

    folder: Path
    package: str
    """The name of the package that contains the modules of the folder."""

    def resolve(self, reference: str) -> object:
        """Return the object of a reference `module:NAME`."""
        module_name, _, attribute = reference.partition(":")
        parts = module_name.split(".")
        if not attribute.isidentifier() or not all(part.isidentifier() for part in parts):
            raise BundleError(f"expected `module:NAME`, such as `tools:find`, got {reference[:80]!r}")
        module = self.import_module(module_name)
        if not hasattr(module, attribute):
            raise CodedError("bundle_invalid", f"the module {module_name} has no {attribute}")
        return getattr(module, attribute)

    def import_module(self, name: str) -> ModuleType:
        """Import a module of the bundle, or an installed one if the bundle has none of that name."""
        try:
            return import_module(f"{self.package}.{name}" if self._has(name) else name)
        except ModuleNotFoundError as error:
            if error.name and self._has(error.name) and not error.name.startswith(self.package):
                hint = f"modules of a bundle import each other by `from .{error.name} import …`"
                raise ModuleNotFoundError(f"{error}; {hint}", name=error.name).with_traceback(
                    error.__traceback__
                ) from error
            raise

    def _has(self, name: str) -> bool:
        first = self.folder / name.split(".", maxsplit=1)[0]
        return first.with_suffix(".py").is_file() or first.is_dir()


@contextmanager
def open_folder_modules(folder: Path) -> Generator[BundleModules]:
    """Yield the modules of a folder under a new private name; after an error they are forgotten."""
    _install_finder()
    invalidate_caches()
    package = f"{NAMESPACE}.{_to_identifier(folder.name)}_{next(_numbers)}"
    try:
        _add_package(package, folder)
        yield BundleModules(folder=folder, package=package)
    except BaseException:
        for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
            del sys.modules[name]
        raise


class _SourceLoader(SourceFileLoader):
    """Loads a module from its source each time: a file that was just changed must not be read from a cache."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _BundleFinder(MetaPathFinder):
    """Finds the modules of bundle folders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{NAMESPACE}.") or path is None:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _SourceLoader(fullname, spec.loader.path)
        return spec


def _install_finder() -> None:
    if NAMESPACE not in sys.modules:
        root = ModuleType(NAMESPACE, "The folders of loaded bundles.")
        root.__path__ = []
        sys.modules[NAMESPACE] = root
        sys.meta_path.insert(0, _BundleFinder())


def _add_package(name: str, folder: Path) -> None:
    """Make the folder a package of that name; its `__init__.py`, if it has one, runs now."""
    init = folder / "__init__.py"
    if not init.is_file():
        module = ModuleType(name)
        module.__path__ = [str(folder)]
        sys.modules[name] = module
        return
    spec = spec_from_file_location(
        name, init, loader=_SourceLoader(name, str(init)), submodule_search_locations=[str(folder)]
    )
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _to_identifier(name: str) -> str:
    return "".join(char if char.isascii() and char.isalnum() else "_" for char in name)[:40]
