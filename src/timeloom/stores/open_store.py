"""Opens a store by its address: a folder, `sqlite:<folder>`, `memory:`, or a scheme of an installed package.

Packages add schemes through the entry-point group `timeloom.stores`. Each entry point names an async function that
takes the whole address and returns a `Store`; its own name is the scheme.
"""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, cast

from timeloom.platform.entry_points import entry_point_names, find_entry_point
from timeloom.ports.signer import Signer
from timeloom.ports.store import Store, StoreError
from timeloom.stores.in_memory.store import MemoryStore

ENTRY_POINTS: Final = "timeloom.stores"

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]+):")


async def open_store(address: str | Path, *, create: bool = True, signer: Signer | None = None) -> Store:
    """Open the store at this address; `create` and `signer` concern the embedded SQLite store.

    A `Path` is always a folder. Raises `StoreError` if nothing provides the scheme.
    """
    scheme = _SCHEME.match(address) if isinstance(address, str) else None
    if scheme is None:
        return await _open_sqlite(Path(address), create=create, signer=signer)
    rest = str(address)[scheme.end() :]
    match scheme[1]:
        case "sqlite":
            # `sqlite:///srv/data` is the URL form of `sqlite:/srv/data`.
            return await _open_sqlite(Path(rest.removeprefix("//")), create=create, signer=signer)
        case "memory":
            return await MemoryStore.open()
        case name:
            return await _find_opener(name)(str(address))


async def _open_sqlite(folder: Path, *, create: bool, signer: Signer | None) -> Store:
    from timeloom.stores.sqlite import SqliteStore  # noqa: PLC0415 - the database driver is not needed for others

    return await SqliteStore.open(folder, create=create, signer=signer)


def _find_opener(scheme: str) -> Callable[[str], Awaitable[Store]]:
    try:
        found = find_entry_point(ENTRY_POINTS, scheme)
    except ValueError as error:
        raise StoreError("store_missing", str(error)) from error
    if found is None:
        known = ", ".join(f"{name}:" for name in ("sqlite", "memory", *entry_point_names(ENTRY_POINTS)))
        raise StoreError(
            "store_missing",
            f"nothing opens stores of the scheme {scheme[:40]!r}; expected a folder or one of {known}",
        )
    opener = found.load()
    if not callable(opener):
        raise StoreError("store_missing", f"the entry point {found.value!r} of {ENTRY_POINTS} is not a function")
    return cast("Callable[[str], Awaitable[Store]]", opener)
