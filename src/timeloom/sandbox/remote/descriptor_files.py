"""Reads descriptors, and gives tools in a task the settings and secrets of their bundle from them."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

import yaml

from timeloom.ports.bundle_context import BundleContext

MAX_DEPTH: Final = 16
"""Deepest nesting of secrets; no file of secrets is nested as deep."""

_Row = dict[str, object]


def read_bundle_context(descriptors: Mapping[str, str], bundle: str, secrets_folder: Path) -> BundleContext:
    """Return what the bundle's tools may read; the values of secrets become files in that private folder.

    Raises `ValueError` if a descriptor has an unknown form.
    """
    config = _find_field("bundles.yaml", descriptors, bundle, "config")
    own = _find_field("bundles.secrets.yaml", descriptors, bundle, "secrets")
    shared = _to_mapping("secrets.yaml", _load("secrets.yaml", descriptors.get("secrets.yaml", "")))
    secrets_folder.mkdir(mode=0o700)
    return BundleContext(
        bundle=bundle,
        plain=config,
        secrets=_write_secrets(own, secrets_folder, "own"),
        server_secrets=_write_secrets(shared, secrets_folder, "shared"),
    )


def parse_bundle_file(name: str, text: str) -> _Row:
    """Return the content of a file with a mapping `bundles`; raises `ValueError` for another form."""
    fields = _to_mapping(name, _load(name, text))
    if not isinstance(fields.get("bundles", {}), dict):
        raise ValueError(f"{name} has no mapping `bundles`, so that it cannot be cut to one bundle")
    return fields


def find_bundle_rows(name: str, text: str) -> list[_Row]:
    """Return the sections of a bundle file with their `id`, from the list `bundles.items` or the mapping `bundles`.

    Raises `ValueError` for another form, because it could contain secrets of other bundles.
    """
    bundles = cast(_Row, parse_bundle_file(name, text).get("bundles", {}))
    rows: object = bundles.get("items")
    if rows is None:
        return [{"id": key, **_to_mapping(name, value)} for key, value in bundles.items()]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in cast("list[object]", rows)):
        raise ValueError(f"`bundles.items` of {name} is no list of mappings, so that it cannot be cut to one bundle")
    return cast("list[_Row]", rows)


def _find_field(name: str, descriptors: Mapping[str, str], bundle: str, field: str) -> _Row:
    rows = [row for row in find_bundle_rows(name, descriptors.get(name, "")) if row.get("id") == bundle]
    return _to_mapping(name, rows[0].get(field)) if rows else {}


def _load(name: str, text: str) -> object:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        raise ValueError(f"{name} is not YAML, so that it cannot be cut to one bundle") from None


def _to_mapping(name: str, value: object) -> _Row:
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"{name} has a value where a mapping is expected, so that it cannot be cut to one bundle")
    return {str(key): one for key, one in cast("dict[object, object]", value or {}).items()}


def _write_secrets(values: _Row, folder: Path, prefix: str) -> dict[str, str]:
    """Write each secret into a file that only this user can read, and return references to the files."""
    references: dict[str, str] = {}
    for number, (name, value) in enumerate(_flatten(values, "", MAX_DEPTH)):
        file = folder / f"{prefix}{number}"
        with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as opened:
            opened.write(value)
        references[name] = f"file:{file}"
    return references


def _flatten(values: _Row, prefix: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the texts of nested mappings by their dotted names."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and depth:
            yield from _flatten(_to_mapping(name, cast(object, value)), f"{name}.", depth - 1)
        elif isinstance(value, str | int | float):
            yield name, str(value)
