"""The sections of a prompt."""

from collections.abc import Mapping
from enum import IntEnum

import msgspec

from timeloom.core.tokens import estimate_tokens


class Section(IntEnum):
    """The sections of the cacheable prompt, in order."""

    NONE = 0
    COMPACTED = 1
    PRUNED = 2
    INTACT = 3


class SectionTitles(msgspec.Struct, frozen=True):
    """The titles of the sections, with their estimated tokens."""

    texts: Mapping[Section, str]
    tokens: Mapping[Section, int]

    @classmethod
    def from_texts(cls, texts: Mapping[Section, str]) -> "SectionTitles":
        """Return the titles with these texts."""
        return cls(texts, {section: estimate_tokens(text) for section, text in texts.items()})


def join_sections(*sections: str) -> str:
    """Join the sections that are not empty."""
    return "\n".join(section for section in sections if section)
