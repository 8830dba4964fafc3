"""Loads the certificate authorities that this machine trusts."""

import os
import ssl
import sys
from functools import cache
from typing import Final

import truststore

BUNDLES: Final = (
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/ca-bundle.pem",
)
"""Certificate bundles of common systems; Python's built-in paths may be those of another system."""


@cache
def load_certificates() -> ssl.SSLContext:
    """Return the TLS context of this machine, loaded once, because loading takes longer than a request on loopback."""
    return make_tls_context()


def make_tls_context() -> ssl.SSLContext:
    """Return a new TLS context with the certificate authorities of this machine."""
    named = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    if sys.platform in ("darwin", "win32") and not named:
        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = ssl.create_default_context()
    if not named and not ssl.get_default_verify_paths().cafile:
        for bundle in [place for place in BUNDLES if os.path.isfile(place)][:1]:  # noqa: PTH113
            context.load_verify_locations(bundle)
    return context
