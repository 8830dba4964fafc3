"""Hashes that identify a request and its system text in the log."""

import hashlib
from functools import lru_cache

from timeloom.core.render.prompt import PREFIX_CHARS


def request_sha256(system_text: str, fingerprint: str, tail: str, tools: str = "") -> str:
    """Return the request hash that a model call records: system text, fingerprint of the cacheable part, tail, tools.

    `tools` is the text of the functions of native tool calling; it is empty with channels.
    """
    hashed = _start_hash(system_text).copy()
    hashed.update(f"\0{fingerprint}\0{tail}".encode("utf-8", "surrogatepass"))
    if tools:
        hashed.update(f"\0{tools}".encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()


@lru_cache(maxsize=8)
def _start_hash(system_text: str) -> "hashlib._Hash":  # pyright: ignore[reportPrivateUsage] - it has no other name
    # The system text is the longest part and the same in all requests of conversations that share it.
    return hashlib.sha256(system_text.encode("utf-8", "surrogatepass"))


def system_hash(system_text: str) -> str:
    """Return the short hash that identifies a system text in cache records; empty for an empty text."""
    if not system_text.strip():
        return ""
    return hashlib.sha256(system_text.encode("utf-8", "surrogatepass")).hexdigest()[:PREFIX_CHARS]
