"""Routes a message to a tool of the server by its similarity to example requests."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
import yaml

from timeloom_local.read_catalogue import OfferedTool
from timeloom_local.routing.embeddings import SentenceModel
from timeloom_local.text_rules import normalize_form

MIN_ROUTE_SIMILARITY: Final = 0.35
"""Minimum similarity to an example of a tool; below it, no tool is meant."""


class Route(msgspec.Struct, frozen=True):
    """The tool that a message asks for, with the most similar example and its similarity."""

    target: str
    example: str
    similarity: float


class Router:
    """Routes messages by comparing them with examples."""

    def __init__(self, sentences: SentenceModel) -> None:
        self._sentences = sentences

    def route(self, message: str, tools: Sequence[OfferedTool]) -> Route | None:
        """Return the tool of the most similar example; None if a message without a tool is more similar."""
        known = [(tool.tool_id, example) for tool in tools for example in _catalogue_examples(tool)]
        none = load_shipped_examples()
        texts = [normalize_form(message), *(example for _, example in known), *none]
        asked, *vectors = self._sentences.vectors(texts)
        scores = [float(asked @ vector) for vector in vectors]
        least = max([MIN_ROUTE_SIMILARITY, *scores[len(known) :]])
        found = [
            Route(name, example, near) for (name, example), near in zip(known, scores, strict=False) if near > least
        ]
        return max(found, key=lambda route: route.similarity, default=None)

    def similarities(self, text: str, others: Sequence[str]) -> list[float]:
        """Return the similarity of a text to each of the others."""
        first, *vectors = self._sentences.vectors([text, *others])
        return [float(first @ vector) for vector in vectors]


def _catalogue_examples(tool: OfferedTool) -> tuple[str, ...]:
    """Return the examples of a tool: its purpose, and the sentences among the examples of its catalogue entry."""
    return (*(normalize_form(example) for example in tool.examples if not example.startswith("{")), tool.purpose)


@cache
def load_shipped_examples() -> tuple[str, ...]:
    """Return the shipped messages that ask for no tool."""
    text = Path(__file__).with_name("examples.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), type=tuple[str, ...])
