"""The bundles of one process by name: a fault disables one bundle, and changed files are loaded again on request."""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeVar

from timeloom.bundles.bundle import Bundle, BundleWidget
from timeloom.bundles.bundle_file import FILE_NAME, read_bundle_file
from timeloom.bundles.fault import BundleError, BundleFault, name_file, to_fault
from timeloom.bundles.load import load_bundle
from timeloom.bundles.loaded_bundle import LoadedBundle, check_bundle
from timeloom.core.codes import CodedError

T = TypeVar("T")

LOAD_S: Final = 30.0
"""Longest time to load a bundle. Less fails modules that import large libraries; more delays the start for a hung
one."""

MAX_WATCHED_FILES: Final = 2_000
"""Files of a bundle that are watched for changes. With more, each turn looks longer for a change."""

_SKIPPED_FOLDERS: Final = frozenset({"__pycache__", "node_modules"})
_SHOWN_CHARS: Final = 60

_logger = logging.getLogger(__name__)

BundleSource = str | Path | Bundle
"""A folder, a package, `module:NAME`, or a bundle that a program made."""
_Fingerprint = frozenset[tuple[str, int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleStatus:
    """A bundle of this process: loaded, or disabled by its fault."""

    name: str
    title: str
    description: str
    fault: BundleFault | None = None

    @property
    def state(self) -> Literal["ready", "disabled"]:
        """Whether the bundle takes messages."""
        return "disabled" if self.fault else "ready"


class BundleRegistry:
    """The bundles that a program was given, in their order. The first one is the default of new conversations."""

    def __init__(
        self,
        sources: Iterable[BundleSource] = (),
        *,
        reloads: bool = False,
        max_iterations: int | None = None,
        load_s: float = LOAD_S,
    ) -> None:
        """Load the bundles. A fault disables one; raises `BundleNotFoundError` for a source that does not exist.

        `reloads` loads changed folders again. `max_iterations` count over the rounds that bundles ask for.
        """
        self.reloads = reloads
        self.max_iterations = max_iterations
        self._slots: dict[str, _Slot] = {}
        for source in sources:
            slot = _Slot(source, load_s)
            slot.load()
            if slot.name in self._slots:
                raise CodedError("bundle_invalid", f"two bundles have the name {slot.name}; rename one in {FILE_NAME}")
            self._slots[slot.name] = slot

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all bundles, also of the disabled ones."""
        return tuple(self._slots)

    @property
    def default(self) -> str:
        """The bundle of new conversations that name none: the first one; empty without bundles."""
        return next(iter(self._slots), "")

    @property
    def faults(self) -> tuple[BundleFault, ...]:
        """The faults of the disabled bundles."""
        return tuple(slot.fault for slot in self._slots.values() if slot.fault)

    def statuses(self) -> tuple[BundleStatus, ...]:
        """Return what people may know of each bundle."""
        return tuple(slot.status() for slot in self._slots.values())

    def list_widgets(self) -> dict[tuple[str, str], BundleWidget]:
        """Return the widgets of the bundles that take messages, by bundle and name."""
        ready = [slot.loaded.bundle for slot in self._slots.values() if slot.loaded and not slot.fault]
        return {(bundle.name, name): widget for bundle in ready for name, widget in bundle.widgets.items()}

    def choose(self, name: str) -> str:
        """Return the bundle of a new conversation: the named one, the default, or none if there are no bundles.

        Raises `bundle_unknown` or `bundle_disabled`.
        """
        chosen = name or self.default
        if not chosen:
            return ""
        self._require(chosen)
        return chosen

    def get(self, name: str) -> LoadedBundle:
        """Return the bundle of a conversation; raises `bundle_missing` or `bundle_disabled`."""
        if name not in self._slots:
            known = f"loaded are {', '.join(self._slots)}" if self._slots else "none is loaded"
            raise CodedError(
                "bundle_missing",
                f"the conversation belongs to the bundle {name[:_SHOWN_CHARS]!r}, which is not loaded here ({known}); "
                "start with --bundle to continue it",
            )
        return self._require(name)

    async def refresh(self, name: str) -> None:
        """Load the bundle again if it may change while the program runs and a file of it has changed."""
        slot = self._slots.get(name)
        if slot and self.reloads:
            async with slot.lock:
                await asyncio.to_thread(slot.reload)

    def disable(self, loaded: LoadedBundle, fault: BundleFault) -> None:
        """Disable the bundle until it is loaded again; a fault of an earlier version of its files changes nothing."""
        slot = self._slots.get(loaded.bundle.name)
        if slot and slot.loaded is loaded:
            slot.fault = fault
            _logger.error("%s", fault.text)

    def _require(self, name: str) -> LoadedBundle:
        slot = self._slots.get(name)
        if slot is None:
            known = ", ".join(self._slots) or "none; pass --bundle to load one"
            raise CodedError("bundle_unknown", f"there is no bundle {name[:_SHOWN_CHARS]!r}; the bundles are {known}")
        if slot.fault or slot.loaded is None:
            raise CodedError("bundle_disabled", slot.fault.text if slot.fault else f"the bundle {name} is not loaded")
        return slot.loaded


class _Slot:
    """One source with the bundle that was loaded from it last, or its fault."""

    def __init__(self, source: BundleSource, load_s: float) -> None:
        self.source = source
        self.name = source.name if isinstance(source, Bundle) else _guess_name(source)
        self.loaded: LoadedBundle | None = None
        self.fault: BundleFault | None = None
        self.lock = asyncio.Lock()
        self._load_s = load_s
        self._fingerprint: _Fingerprint = frozenset()

    def load(self) -> None:
        """Load the bundle for the first time."""
        self._fingerprint = _fingerprint(self._folder)
        try:
            self.loaded = self._load()
            self.name = self.loaded.bundle.name
        except BundleError as error:
            self._fail(error)
        self._log_missing_parts()

    def reload(self) -> None:
        """Load the bundle again if its files have changed since."""
        found = _fingerprint(self._folder)
        if found == self._fingerprint:
            return
        self._fingerprint = found
        try:
            loaded = self._load()
            if loaded.bundle.name != self.name:
                raise BundleError(f"its name changed to {loaded.bundle.name}; start again to use the new name")
        except CodedError as error:
            self._fail(error if isinstance(error, BundleError) else BundleError(str(error)))
            return
        self.loaded, self.fault = loaded, None
        self._log_missing_parts()
        _logger.info("bundle loaded again", extra={"fields": {"bundle": self.name}})

    def status(self) -> BundleStatus:
        bundle = self.loaded.bundle if self.loaded else None
        return BundleStatus(
            name=self.name,
            title=(bundle.title if bundle else "") or self.name,
            description=bundle.description if bundle else "",
            fault=self.fault,
        )

    @property
    def _folder(self) -> Path | None:
        return Path(self.source) if isinstance(self.source, str | Path) and Path(self.source).is_dir() else None

    def _load(self) -> LoadedBundle:
        source = self.source
        if isinstance(source, Bundle):
            return check_bundle(source)
        return _run_bounded(lambda: load_bundle(source), self._load_s, self._folder)

    def _log_missing_parts(self) -> None:
        for part in self.loaded.missing if self.loaded else ():
            _logger.warning("%s", part.text)

    def _fail(self, error: BundleError) -> None:
        self.fault = to_fault(self.name, error)
        _logger.error("%s", self.fault.text)


def _guess_name(source: str | Path) -> str:
    """Return a name for a bundle that cannot be loaded: that in its file, or that of its folder or module."""
    if not Path(source).is_dir():
        return str(source).partition(":")[0].split(".")[-1]
    try:
        return read_bundle_file(Path(source))[0].name
    except BundleError:
        # Loading it reports the same error.
        return Path(source).absolute().name


def _fingerprint(folder: Path | None) -> _Fingerprint:
    """Return the names, times and sizes of the files of a folder."""
    return frozenset() if folder is None else frozenset(_stat_files(folder, folder, []))


def _stat_files(root: Path, folder: Path, found: list[tuple[str, int, int]]) -> Sequence[tuple[str, int, int]]:
    for path in sorted(folder.iterdir()):
        if len(found) >= MAX_WATCHED_FILES:
            break
        if path.name.startswith(".") or path.name in _SKIPPED_FOLDERS or path.is_symlink():
            continue
        if path.is_dir():
            _stat_files(root, path, found)
        elif path.suffix != ".pyc":
            # Editors replace files, so a listed one may be gone.
            with suppress(FileNotFoundError):
                stat = path.stat()
                found.append((str(path.relative_to(root)), stat.st_mtime_ns, stat.st_size))
    return found


def _run_bounded(work: Callable[[], T], limit_s: float, folder: Path | None) -> T:
    """Run the work in a thread of its own and return its result; one that takes too long is left behind."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            errors.append(error)

    thread = threading.Thread(target=run, name="timeloom bundle", daemon=True)
    thread.start()
    thread.join(limit_s)
    if results:
        return results[0]
    if errors:
        raise errors[0]
    file, line = _place_of(thread, folder)
    raise BundleError(f"loading it took longer than {limit_s:g} seconds", file=file, line=line)


def _place_of(thread: threading.Thread, folder: Path | None) -> tuple[str, int]:
    """Return the line of the bundle's code at which a thread is."""
    root = folder.absolute() if folder else None
    # The documented way to see where another thread is.
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    while frame:
        file = frame.f_code.co_filename
        if root and Path(file).is_relative_to(root):
            return name_file(file, root), frame.f_lineno
        frame = frame.f_back
    return "", 0
