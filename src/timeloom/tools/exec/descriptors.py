"""Writes the settings and secrets of a bundle as descriptors, for tools in the supervisor of a remote sandbox."""

import logging
from collections.abc import Mapping

import msgspec

from timeloom.platform.secrets import SecretError, resolve_secret
from timeloom.ports.bundle_context import BundleContext

_logger = logging.getLogger(__name__)


def make_descriptors(context: BundleContext) -> dict[str, str]:
    """Return the descriptors of the bundle by file name, with the values of its secrets; may block.

    JSON is YAML, so each text is JSON. A secret that cannot be read is left out and logged by name.
    """
    settings = context.plain or (msgspec.to_builtins(context.settings) if context.settings is not None else {})
    rows = {
        "bundles.yaml": {"id": context.bundle, "config": settings},
        "bundles.secrets.yaml": {"id": context.bundle, "secrets": _read_secrets(context.secrets)},
    }
    descriptors = {name: _encode({"bundles": {"items": [row]}}) for name, row in rows.items()}
    return {**descriptors, "secrets.yaml": _encode(_read_secrets(context.server_secrets))}


def _read_secrets(references: Mapping[str, str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, reference in references.items():
        try:
            values[name] = resolve_secret(reference).reveal()
        except SecretError as error:
            _logger.warning("a remote supervisor does not get the secret %s: %s", name, error)
    return values


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()
