"""Selects the settings and secrets files that a remote supervisor gets."""

from collections.abc import Mapping
from typing import Final, cast

import yaml

from timeloom.sandbox.fargate.profile import PayloadScope
from timeloom.sandbox.remote.descriptor_files import find_bundle_rows, parse_bundle_file

BUNDLE_DESCRIPTORS: Final = frozenset({"bundles.yaml", "bundles.secrets.yaml"})
"""The descriptors with one section per bundle."""


def scoped(descriptors: Mapping[str, str], scope: PayloadScope, active_bundle: str) -> dict[str, str]:
    """Return the descriptors for a launch: all of them, or only the active bundle's sections of bundle files.

    Raises `ValueError` if a bundle file has an unknown form, because it could contain secrets of other bundles.
    """
    if scope == "full":
        return dict(descriptors)
    return {
        name: _cut_to_bundle(name, text, active_bundle) if name in BUNDLE_DESCRIPTORS else text
        for name, text in descriptors.items()
    }


def add_bundle(descriptors: Mapping[str, str], active: Mapping[str, str]) -> dict[str, str]:
    """Return the descriptors with those of the active bundle, which replace its section of the bundle files.

    Other files of the same name stay as they are. Raises `ValueError` if a bundle file has an unknown form.
    """
    added = {**active, **descriptors}
    for name in BUNDLE_DESCRIPTORS & descriptors.keys() & active.keys():
        rows = find_bundle_rows(name, active[name])
        ids = {row.get("id") for row in rows}
        others = [row for row in find_bundle_rows(name, descriptors[name]) if row.get("id") not in ids]
        added[name] = yaml.safe_dump({"bundles": {"items": [*others, *rows]}})
    return added


def _cut_to_bundle(name: str, text: str, bundle: str) -> str:
    """Keep only the bundle's section: in the list `bundles.items` by `id`, or in the mapping `bundles`."""
    fields = parse_bundle_file(name, text)
    bundles = cast("dict[str, object]", fields.get("bundles", {}))
    if "items" in bundles:
        rows = [row for row in find_bundle_rows(name, text) if row.get("id") == bundle]
        return yaml.safe_dump({**fields, "bundles": {**bundles, "items": rows}})
    return yaml.safe_dump({**fields, "bundles": {key: value for key, value in bundles.items() if key == bundle}})
