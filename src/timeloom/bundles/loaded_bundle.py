"""A bundle that was loaded and checked."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from timeloom.bundles.bundle import Bundle
from timeloom.bundles.bundle_file import MAX_ROUNDS, NAME_PATTERN
from timeloom.bundles.fault import BundleError, to_bundle_error
from timeloom.bundles.missing_parts import MissingPart, PartKind
from timeloom.core.stream.declared import DeclaredChannel, check_declared
from timeloom.tools.output_format import OutputFormat
from timeloom.tools.registry import ToolRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedBundle:
    """A bundle that was loaded, with its origin. A bundle that is loaded again is another object."""

    bundle: Bundle
    folder: Path | None = None
    """The folder of its files; None for an object of a module."""
    missing: tuple[MissingPart, ...] = ()
    """The parts that the bundle names and that timeloom cannot use yet."""


def check_bundle(bundle: Bundle) -> LoadedBundle:
    """Check a bundle that a program made, and return it as loaded."""
    if not re.fullmatch(NAME_PATTERN, bundle.name):
        raise BundleError(f"the name of a bundle has letters, digits, `_` and `-`, got {bundle.name[:60]!r}")
    if bundle.max_iterations is not None and not 1 <= bundle.max_iterations <= MAX_ROUNDS:
        raise BundleError(f"max_iterations must be between 1 and {MAX_ROUNDS}, got {bundle.max_iterations}")
    if unknown := sorted({one.widget for one in bundle.channels.values() if one.widget} - set(bundle.widgets)):
        known = ", ".join(sorted(bundle.widgets)) or "none"
        raise BundleError(f"a channel names the widget {unknown[0][:60]!r}; the widgets of the bundle are {known}")
    try:
        ToolRegistry(bundle.tools)
        declare_channels(bundle)
        if bundle.output not in (None, str):
            OutputFormat.from_type(bundle.output)
    except Exception as error:
        raise to_bundle_error(error, None) from error
    return LoadedBundle(bundle=bundle, missing=tuple(_missing_parts(bundle)))


def declare_channels(bundle: Bundle) -> tuple[DeclaredChannel, ...]:
    """Return the channels of the bundle as turns declare them; raises `channel_malformed`."""
    return check_declared(
        [
            DeclaredChannel(name=name, mime=one.mime, purpose=one.purpose, widget=one.widget)
            for name, one in bundle.channels.items()
        ]
    )


def _missing_parts(bundle: Bundle) -> Iterable[MissingPart]:
    parts: dict[PartKind, tuple[str, ...]] = {
        "skills": tuple(Path(one).name for one in bundle.skills),
        "knowledge": tuple(Path(one).name for one in bundle.knowledge),
        "mcp_servers": tuple(bundle.mcp_servers),
    }
    for part, names in parts.items():
        if names:
            yield MissingPart(bundle=bundle.name, part=part, names=names)
