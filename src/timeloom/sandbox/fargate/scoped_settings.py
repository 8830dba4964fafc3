"""Selects the settings and secrets files that a remote supervisor gets."""

from collections.abc import Mapping
from typing import Final, cast

import yaml

from timeloom.sandbox.fargate.profile import PayloadScope

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


def _cut_to_bundle(name: str, text: str, bundle: str) -> str:
    """Keep only the bundle's section: in the list `bundles.items` by `id`, or in the mapping `bundles`."""
    try:
        whole: object = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ValueError(f"{name} is not YAML, so that it cannot be cut to one bundle") from None
    fields = cast("dict[str, object]", whole or {}) if isinstance(whole or {}, dict) else None
    bundles = fields.get("bundles", {}) if fields is not None else None
    if fields is None or not isinstance(bundles, dict):
        raise ValueError(f"{name} has no mapping `bundles`, so that it cannot be cut to one bundle")
    return yaml.safe_dump({**fields, "bundles": _select_bundle(name, cast("dict[str, object]", bundles), bundle)})


def _select_bundle(name: str, bundles: "dict[str, object]", bundle: str) -> "dict[str, object]":
    items = bundles.get("items")
    if items is None:
        return {key: value for key, value in bundles.items() if key == bundle}
    if not isinstance(items, list) or not all(isinstance(each, dict) for each in cast("list[object]", items)):
        raise ValueError(f"`bundles.items` of {name} is no list of mappings, so that it cannot be cut to one bundle")
    listed = cast("list[dict[str, object]]", items)
    return {**bundles, "items": [each for each in listed if each.get("id") == bundle]}
