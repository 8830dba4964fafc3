"""The tool of the bundle: finds the claims of a report that a reader could not check."""

import re
from typing import Final

import msgspec

from timeloom import get_settings, tool

_CITATION: Final = re.compile(r"\[\[S:([\d,\s-]+)\]\]")
_FIGURE: Final = re.compile(r"\d")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])(?:\s*\[\[S:[\d,\s-]+\]\])*\s+(?=[A-Z*\[(])")
_NOT_PROSE: Final = ("#", "|", ">", "```")
_MAX_FINDINGS: Final = 20
_LONG_RANGE: Final = 100


class Settings(msgspec.Struct, frozen=True):
    """The settings of the bundle, with their defaults."""

    min_sources: int = 3
    """Different sources that a report must cite."""


class Check(msgspec.Struct, frozen=True):
    """The result of a check: the cited sources, and what to mend."""

    sources: list[int]
    findings: list[str]


@tool("research.check_report", effect="pure")
def check_report(text: str) -> Check:
    """Check a report for figures without a citation and for too few sources.

    text: the report, or a reference to it: ref:fi:t1/report.md
    """
    sources = sorted({sid for match in _CITATION.finditer(text) for sid in _cited(match[1])})
    findings = [f"no citation: {sentence[:200]}" for sentence in _sentences(text) if _lacks_citation(sentence)]
    wanted = get_settings(Settings).min_sources
    if len(sources) < wanted:
        findings.append(f"the report cites {len(sources)} sources, at least {wanted} are wanted")
    return Check(sources, findings[:_MAX_FINDINGS])


def _sentences(text: str) -> list[str]:
    """Return the sentences of the prose, each with the citations that follow it."""
    prose = [line.strip() for line in text.splitlines() if not line.lstrip().startswith(_NOT_PROSE)]
    return [sentence for line in prose for sentence in _split(line)]


def _split(line: str) -> list[str]:
    ends = [match.end() for match in _SENTENCE_END.finditer(line)]
    return [line[start:end].strip() for start, end in zip([0, *ends], [*ends, len(line)], strict=True)]


def _lacks_citation(sentence: str) -> bool:
    is_own = sentence.startswith("This suggests")
    return bool(_FIGURE.search(_CITATION.sub("", sentence))) and not is_own and not _CITATION.search(sentence)


def _cited(ids: str) -> list[int]:
    """Return the ids of a citation: `1,3-5` are 1, 3, 4 and 5."""
    cited: list[int] = []
    for part in ids.split(","):
        first, _, last = part.strip().partition("-")
        if first.strip().isdigit() and (not last or last.strip().isdigit()):
            low = int(first)
            cited += range(low, min(int(last or low), low + _LONG_RANGE) + 1)
    return cited
