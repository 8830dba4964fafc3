"""Routes a message to a tool by its similarity to example requests."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
import yaml

from timeloom_local.read_catalogue import Offer
from timeloom_local.routing.embeddings import SentenceModel
from timeloom_local.text_rules import normal

ANSWER: Final = "answer"
"""The route of a message that needs no tool."""

HELP: Final = "help"
"""The route of a message that asks for the model's abilities."""

LEAST_LIKENESS: Final = 0.3
"""Minimum similarity to an example; below it, a message is answered without a tool."""


class Route(msgspec.Struct, frozen=True):
    """The route of a message (a tool, `answer` or `help`), with the most similar example and its similarity."""

    to: str
    example: str
    likeness: float


class Router:
    """Routes messages by comparing them with examples."""

    def __init__(self, sentences: SentenceModel) -> None:
        self._sentences = sentences

    def route(self, message: str, offers: Sequence[Offer], barred: frozenset[str] = frozenset()) -> Route:
        """Return the route of the most similar example; routes in `barred` are excluded."""
        known = [(name, example) for name, some in _examples(offers).items() for example in some]
        asked, *vectors = self._sentences.vectors([normal(message), *(example for _, example in known)])
        best = Route(ANSWER, "", LEAST_LIKENESS if ANSWER not in barred else -1.0)
        for (name, example), vector in zip(known, vectors, strict=True):
            if name not in barred and (near := float(asked @ vector)) > best.likeness:
                best = Route(name, example, near)
        return best

    def likeness(self, left: str, right: str) -> float:
        """Return the similarity of two texts."""
        return self._sentences.likeness(left, right)

    def nearest(self, question: str, texts: Sequence[str], count: int) -> list[int]:
        """Return the indexes of the `count` texts that are most similar to the question, in ascending order."""
        asked, *vectors = self._sentences.vectors([question, *texts])
        scores = [float(asked @ vector) for vector in vectors]
        return sorted(sorted(range(len(texts)), key=lambda at: -scores[at])[:count])


def _examples(offers: Sequence[Offer]) -> Mapping[str, Sequence[str]]:
    """Return the examples of each tool: the shipped ones, and those of its catalogue entry."""
    shipped = shipped_examples()
    found = {offer.tool_id: (*shipped.get(offer.tool_id, ()), *_own(offer, shipped)) for offer in offers}
    return {**found, ANSWER: shipped[ANSWER], HELP: shipped[HELP]}


def _own(offer: Offer, shipped: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    said = tuple(normal(example) for example in offer.examples if not example.startswith("{"))
    return said if offer.tool_id in shipped else (*said, offer.purpose)


@cache
def shipped_examples() -> Mapping[str, tuple[str, ...]]:
    """Return the shipped example requests by tool."""
    text = Path(__file__).with_name("examples.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), type=dict[str, tuple[str, ...]])
