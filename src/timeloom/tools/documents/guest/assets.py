"""Finds the files of a document. Nothing else exists for it: no other file, and no address."""

import base64
import re
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from timeloom.tools.documents.guest.job import Job

BASE = "file:///assets/"
"""The address that relative references of a page begin with; it is never opened."""

SHOWN_CHARS = 100

_EMBEDDED = re.compile(r"data:image/[a-z0-9.+\-]{1,40};base64,", re.IGNORECASE)
_TYPES = {".svg": "image/svg+xml", ".css": "text/css"}


def find_asset(reference: str, job: Job) -> Path | None:
    """Return the file that a reference names; None, with a warning, if it is not one of the document.

    A picture that is written into the text becomes a temporary file.
    """
    if embedded := _EMBEDDED.match(reference):
        return _save_embedded(unquote(reference[embedded.end() :]), job)
    name = reference.removeprefix(BASE)
    for spelling in (name, unquote(name), unquote(name).removeprefix("./")):
        if spelling in job.assets:
            return Path(job.assets[spelling])
    job.warn(f"not drawn, because a document has no files but those of the conversation: {name[:SHOWN_CHARS]}")
    return None


def _save_embedded(encoded: str, job: Job) -> Path | None:
    try:
        data = base64.b64decode(encoded)
    except ValueError:
        job.warn("not drawn, because its text is no base64: a picture in the text")
        return None
    with tempfile.NamedTemporaryFile(prefix="picture-", delete=False) as file:
        file.write(data)
    return Path(file.name)


def make_fetcher(job: Job, more: Mapping[str, bytes] | None = None) -> Any:
    """Return the object by which WeasyPrint loads what a page names; `more` are contents by name."""
    urls: Any = import_module("weasyprint.urls")
    given = more or {}

    def fetch(self: Any, url: str, headers: Mapping[str, str] | None = None) -> Any:
        if url.startswith("data:"):
            return urls.URLFetcher.fetch(self, url, headers)
        name = url.removeprefix(BASE)
        file = None if name in given else find_asset(url, job)
        if file is None and name not in given:
            raise ValueError("no file of the document")
        body = given[name] if file is None else file.read_bytes()
        kind = _TYPES.get(Path(unquote(name)).suffix.lower())
        return urls.URLFetcherResponse(url, body, {"Content-Type": kind} if kind else {}, 200)

    fetcher: Any = type("AssetFetcher", (urls.URLFetcher,), {"fetch": fetch})
    return fetcher(allowed_protocols={"data"}, allow_redirects=False)
