"""Loads bundles: from a folder with `bundle.toml`, from an installed package, or from a `Bundle` object in a module."""

import sys
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from timeloom.bundles.build import build_bundle
from timeloom.bundles.bundle import Bundle
from timeloom.bundles.bundle_file import FILE_NAME, read_bundle_file
from timeloom.bundles.fault import BundleNotFoundError, to_bundle_error
from timeloom.bundles.loaded_bundle import LoadedBundle, check_bundle
from timeloom.bundles.modules import BundleModules, open_folder_modules


def load_bundle(source: str | Path) -> LoadedBundle:
    """Load the bundle of a folder, a package or `module:NAME`.

    Raises `BundleNotFoundError` if there is none, and `BundleError` with the file and the line of a fault.
    """
    if isinstance(source, Path) or (source and Path(source).is_dir()):
        return _load_folder(Path(source))
    if "/" in source or not source:
        raise BundleNotFoundError(f"there is no folder {source[:120]!r}")
    return _load_object(source) if ":" in source else _load_package(source)


def _load_folder(folder: Path) -> LoadedBundle:
    folder = folder.absolute()
    if not (folder / FILE_NAME).exists():
        what = f"has no {FILE_NAME}" if folder.is_dir() else "does not exist"
        raise BundleNotFoundError(f"the folder {folder.name[:120]!r} {what}; `timeloom new NAME` writes a bundle")
    table, document = read_bundle_file(folder)
    with _naming_faults(folder), open_folder_modules(folder) as modules:
        return build_bundle(table, document, modules)


def _load_package(name: str) -> LoadedBundle:
    """Load the bundle of an importable package: from its `bundle.toml`, or its one `Bundle` object."""
    _find_current_folder()
    with _naming_faults(None):
        try:
            spec = find_spec(name)
        except (ModuleNotFoundError, ValueError):
            spec = None
        if spec is None:
            raise BundleNotFoundError(f"there is no folder and no package {name[:120]!r}; install it, or name a folder")
    for place in spec.submodule_search_locations or ():
        folder = Path(place)
        if (folder / FILE_NAME).exists():
            table, document = read_bundle_file(folder)
            with _naming_faults(folder):
                return build_bundle(table, document, BundleModules(folder=folder, package=name))
    folder = Path(spec.origin).parent if spec.origin else None
    with _naming_faults(folder):
        found = {id(one): one for one in vars(import_module(name)).values() if isinstance(one, Bundle)}
    if len(found) != 1:
        how = "no" if not found else f"{len(found)}"
        raise BundleNotFoundError(
            f"{name[:120]} has no {FILE_NAME} and {how} Bundle objects; name one as {name[:60]}:NAME"
        )
    return _place(next(iter(found.values())), folder)


def _load_object(source: str) -> LoadedBundle:
    name, _, attribute = source.partition(":")
    if not attribute.isidentifier() or not all(part.isidentifier() for part in name.split(".")):
        raise BundleNotFoundError(f"expected a folder, a package or MODULE:NAME, got {source[:120]!r}")
    _find_current_folder()
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        raise BundleNotFoundError(f"there is no module {name[:120]!r}")
    folder = Path(spec.origin).parent if spec.origin else None
    with _naming_faults(folder):
        value = getattr(import_module(name), attribute, None)
    if not isinstance(value, Bundle):
        raise BundleNotFoundError(f"{source[:120]} is no Bundle object")
    return _place(value, folder)


def _place(bundle: Bundle, folder: Path | None) -> LoadedBundle:
    with _naming_faults(folder):
        return replace(check_bundle(bundle), folder=folder)


def _find_current_folder() -> None:
    """Let a module of the current folder be found, as with `python -m`."""
    if "" not in sys.path:
        sys.path.insert(0, "")


class _naming_faults:  # noqa: N801 - a context manager reads as a function
    """Raises every error of a bundle's code as a `BundleError` with its place."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, Exception | SystemExit) and not isinstance(error, BundleNotFoundError):
            raise to_bundle_error(error, self._folder) from error
