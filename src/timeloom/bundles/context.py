"""The values that the code of a bundle may read, for the process that has the bundle.

The functions themselves are a port, because the supervisor of a remote sandbox answers them from its payload.
"""

from collections.abc import Mapping

from timeloom.bundles.bundle import Bundle
from timeloom.ports.bundle_context import (
    BundleContext,
    enter_bundle,
    find_bundle,
    get_plain,
    get_scratchpad,
    get_secret,
    get_settings,
    set_scratchpad,
    use_bundle,
)

__all__ = [
    "BundleContext",
    "enter_bundle",
    "find_bundle",
    "get_plain",
    "get_scratchpad",
    "get_secret",
    "get_settings",
    "make_context",
    "set_scratchpad",
    "use_bundle",
]


def make_context(bundle: Bundle, server_secrets: Mapping[str, str]) -> BundleContext:
    """Return the context of a bundle on a server with these references to secrets."""
    return BundleContext(
        bundle=bundle.name, settings=bundle.settings, secrets=bundle.secrets, server_secrets=server_secrets
    )
