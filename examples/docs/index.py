"""An index of a folder of Markdown documents: its sections, ranked by BM25."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

ENDINGS: Final = frozenset({".md", ".txt", ".rst"})
MAX_FILE_BYTES: Final = 2_000_000
HIT_CHARS: Final = 600

_WORD: Final = re.compile(r"\w+")
_HEADING: Final = re.compile(r"^#{1,6} +", re.MULTILINE)
_K1: Final = 1.2
_B: Final = 0.75


class Settings(msgspec.Struct, frozen=True):
    """The settings of the bundle, with their defaults."""

    folder: str = "documents"
    """The folder with the documents: a path in the folder of the bundle, or an absolute one."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A section that fits a query."""

    path: str
    title: str
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with its text, and how often it has each word."""

    path: str
    title: str
    text: str
    words: Counter[str]


class DocumentIndex:
    """The documents of a folder by their `ks:` paths, and their sections."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        self.documents = documents
        self._sections = [section for path, text in documents.items() for section in _split(path, text)]
        self._found_in = Counter(word for section in self._sections for word in section.words)
        self._mean = sum(section.words.total() for section in self._sections) / max(len(self._sections), 1)

    @classmethod
    def of_folder(cls, folder: Path) -> "DocumentIndex":
        """Read the documents of the folder; links and large files are left out."""
        files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in ENDINGS)
        return cls(
            {
                f"ks:{file.relative_to(folder).as_posix()}": file.read_text(encoding="utf-8", errors="replace")
                for file in files
                if file.is_file() and not file.is_symlink() and file.stat().st_size <= MAX_FILE_BYTES
            }
        )

    def search(self, query: str, limit: int) -> list[Hit]:
        """Return the sections that fit the query best; none if no word of it occurs."""
        wanted = set(_words(query))
        scored = [(self._score(wanted, section.words), section) for section in self._sections]
        best = sorted((one for one in scored if one[0] > 0), key=lambda one: -one[0])[:limit]
        return [
            Hit(path=section.path, title=section.title, text=section.text[:HIT_CHARS], score=round(score, 3))
            for score, section in best
        ]

    def read(self, path: str) -> str | None:
        """Return the document at that path. Only documents of the index can be read, so no path leaves the folder."""
        return self.documents.get(path)

    def has_quote(self, path: str, quote: str) -> bool:
        """Return whether the document contains these words; line breaks and marks of Markdown do not count."""
        return _plain(quote) in _plain(self.documents.get(path, ""))

    def _score(self, wanted: set[str], words: Counter[str]) -> float:
        length = words.total() / (self._mean or 1)
        return sum(
            self._rarity(word) * words[word] * (_K1 + 1) / (words[word] + _K1 * (1 - _B + _B * length))
            for word in wanted
            if word in words
        )

    def _rarity(self, word: str) -> float:
        found = self._found_in[word]
        return math.log(1 + (len(self._sections) - found + 0.5) / (found + 0.5))


def _split(path: str, text: str) -> list[Section]:
    """Return the sections of a document; each is found by the name of the document, too."""
    parts = [part.strip() for part in _HEADING.split(text)]
    named = [(part.partition("\n")[0], part) for part in parts if part]
    document = named[0][0] if named else path
    return [
        Section(
            path, title if title == document else f"{document}: {title}", part, Counter(_words(f"{document} {part}"))
        )
        for title, part in named
    ]


def _words(text: str) -> list[str]:
    """Return the words in their basic form: plurals and simple endings do not count."""
    return [re.sub(r"(?<=\w{3})(ing|ed|es|s|e)$", "", word.casefold()) for word in _WORD.findall(text)]


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[*_`>|#]", " ", text).split()).casefold()
