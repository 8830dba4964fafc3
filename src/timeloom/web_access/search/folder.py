"""Searches a folder of saved pages, for tests, demonstrations and sites without internet."""

import asyncio
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from timeloom.core.sources import normalize_url
from timeloom.platform.worker_pool import WorkerError, WorkerPool
from timeloom.ports.web import SearchHit, SearchQuery, WebPage
from timeloom.web_access.extract_worker import Extract, ExtractRequest

KINDS: Final[Mapping[str, str]] = {".html": "html", ".htm": "html", ".pdf": "pdf", ".md": "text", ".txt": "text"}
"""The files that are pages, by their ending."""

BASE_URL: Final = "https://saved.invalid/"
"""The address below which pages stand that name none of their own. Nothing on the web has it."""

MAX_FILES: Final = 5_000
MAX_FILE_BYTES: Final = 10 * 1024 * 1024
SNIPPET_CHARS: Final = 300

_MIMES: Final = {"html": "text/html", "pdf": "application/pdf", "text": "text/plain"}
_WORD: Final = re.compile(r"\w+")
_K1: Final = 1.2
_B: Final = 0.75


class SavedPages:
    """Pages of a folder; implements `SearchBackend`, and knows the pages by their addresses.

    The folder is read at the first search. A page has the canonical address that it declares, or its place below the
    base address.
    """

    name = "folder"

    def __init__(self, folder: Path, workers: WorkerPool, base_url: str = "") -> None:
        self._folder = folder
        self._workers = workers
        self._base_url = base_url or BASE_URL
        self._lock = asyncio.Lock()
        self._pages: list[WebPage] | None = None
        self._words: list[Counter[str]] = []
        self._found_in: Counter[str] = Counter()

    async def search(self, query: SearchQuery, tenant: str) -> Sequence[SearchHit]:
        """Return the pages with words of the query, by BM25."""
        pages = await self._load()
        wanted = set(_words(query.text))
        mean = sum(words.total() for words in self._words) / max(len(pages), 1)
        scores = [(self._score(wanted, words, mean), at) for at, words in enumerate(self._words)]
        best = sorted((one for one in scores if one[0] > 0), key=lambda one: (-one[0], one[1]))[: query.count]
        return [
            SearchHit(
                url=pages[at].final_url,
                title=pages[at].title,
                text=_snippet(pages[at].text, wanted),
                published_time_iso=pages[at].published_time_iso,
                modified_time_iso=pages[at].modified_time_iso,
            )
            for _, at in best
        ]

    async def find(self, url: str) -> WebPage | None:
        """Return the saved page with that address; None if there is none."""
        key = normalize_url(url)
        return next((page for page in await self._load() if normalize_url(page.final_url) == key), None)

    def _score(self, wanted: set[str], words: Counter[str], mean: float) -> float:
        length = words.total() / (mean or 1)
        return sum(
            self._rarity(word) * words[word] * (_K1 + 1) / (words[word] + _K1 * (1 - _B + _B * length))
            for word in wanted
            if word in words
        )

    def _rarity(self, word: str) -> float:
        found = self._found_in[word]
        return math.log(1 + (len(self._words) - found + 0.5) / (found + 0.5))

    async def _load(self) -> list[WebPage]:
        async with self._lock:
            if self._pages is None:
                files = await asyncio.to_thread(lambda: list(_list_files(self._folder)))
                read = await asyncio.gather(*map(self._read, files))
                self._pages = [page for page in read if page]
                self._words = [Counter(_words(f"{page.title} {page.text}")) for page in self._pages]
                self._found_in = Counter(word for words in self._words for word in words)
        return self._pages

    async def _read(self, file: Path) -> WebPage | None:
        kind = KINDS[file.suffix.lower()]
        place = file.relative_to(self._folder).as_posix()
        url = self._base_url.rstrip("/") + "/" + quote(place)
        data = await asyncio.to_thread(file.read_bytes)
        # The address is a placeholder: a page without a canonical link has none but its place.
        request = msgspec.convert({"kind": kind, "data": data, "url": url}, ExtractRequest)
        try:
            answer = await self._workers.run(msgspec.msgpack.encode(request))
        except WorkerError:
            return None
        extract = msgspec.msgpack.decode(answer, type=Extract)
        if not extract.text.strip():
            return None
        address = extract.canonical_url or url
        return WebPage(
            url=address,
            final_url=address,
            state="ok",
            title=extract.title or file.stem,
            text=extract.text,
            mime=_MIMES[kind],
            pages=extract.pages,
            size_bytes=len(data),
            published_time_iso=extract.published,
            modified_time_iso=extract.modified,
            links=extract.links,
            is_cut=extract.is_cut,
        )


def _list_files(folder: Path) -> Iterator[Path]:
    """Yield the pages of the folder in order of their paths; links are not followed."""
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in KINDS)
    pages = (path for path in found if path.is_file() and not path.is_symlink())
    for _, path in zip(range(MAX_FILES), pages, strict=False):
        if path.stat().st_size <= MAX_FILE_BYTES:
            yield path


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _snippet(text: str, wanted: set[str]) -> str:
    """Return the part of the text around the first wanted word."""
    first = next((found.start() for found in _WORD.finditer(text) if found[0].casefold() in wanted), 0)
    start = max(0, first - SNIPPET_CHARS // 3)
    return " ".join(text[start : start + SNIPPET_CHARS].split())
