"""Finds the objects that installed packages offer in an entry-point group, and loads only the named one."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def entry_point_names(group: str) -> tuple[str, ...]:
    """Return the names in the group, sorted; loads nothing."""
    from importlib import metadata  # noqa: PLC0415 - it loads the email package, which takes 8 ms

    return tuple(sorted({one.name for one in metadata.entry_points(group=group)}))


def find_entry_point(group: str, name: str) -> "EntryPoint | None":
    """Return the entry point with that name, not loaded; raises `ValueError` if packages offer different ones."""
    from importlib import metadata  # noqa: PLC0415 - it loads the email package, which takes 8 ms

    found = {one.value: one for one in metadata.entry_points(group=group, name=name)}
    if len(found) > 1:
        raise ValueError(f"{name!r} of {group} is offered twice, as {' and '.join(sorted(found))}; uninstall one")
    return next(iter(found.values()), None)
