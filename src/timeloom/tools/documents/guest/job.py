"""The job of a renderer: what it is to draw, and what it could not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_WARNINGS = 20
"""Most warnings of one document; a hostile one could have millions."""

MAX_WARNING_CHARS = 200


@dataclass(frozen=True)
class Source:
    """A cited source."""

    sid: int
    title: str
    url: str

    @property
    def label(self) -> str:
        """The text by which a list of sources names it."""
        return self.title or self.url or "untitled"


@dataclass
class Job:
    """One document, and the warnings about its parts that could not be drawn."""

    kind: str
    format: str
    content: str
    title: str
    landscape: bool
    sources_section: bool
    sources: Sequence[Source]
    assets: Mapping[str, str]
    """The files of the document, by the addresses with which it names them."""
    width: int
    scale: float
    warnings: list[str] = field(default_factory=list[str])

    def warn(self, text: str) -> None:
        """Add a warning, once."""
        text = text[:MAX_WARNING_CHARS]
        if text not in self.warnings and len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(text)

    def find_source(self, href: str) -> Source | None:
        """Return the source to which a citation such as `#source-3` leads."""
        name = href.removeprefix("#source-")
        return next((each for each in self.sources if href.startswith("#") and str(each.sid) == name), None)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Job":
        """Return the job of a decoded JSON object."""
        sources: Any = [Source(**each) for each in values["sources"]]
        return cls(**(values | {"sources": sources}))
