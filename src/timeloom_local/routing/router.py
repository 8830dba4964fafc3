"""The router: which tool a message is for, by how alike it is to what people say when they want each tool."""

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
"""The route of a message that asks what can be done here."""

LEAST_LIKENESS: Final = 0.3
"""Below this a message is like no example, and is answered."""


class Route(msgspec.Struct, frozen=True):
    """A tool, `answer` or `help`, with the example that was nearest and how near it was."""

    to: str
    example: str
    likeness: float


class Router:
    """Compares messages with examples."""

    def __init__(self, sentences: SentenceModel) -> None:
        self._sentences = sentences

    def route(self, message: str, offers: Sequence[Offer], barred: frozenset[str] = frozenset()) -> Route:
        """The route of the nearest example; those in `barred` are not taken, whatever they are like."""
        known = [(name, example) for name, some in _examples(offers).items() for example in some]
        asked, *vectors = self._sentences.vectors([normal(message), *(example for _, example in known)])
        best = Route(ANSWER, "", LEAST_LIKENESS if ANSWER not in barred else -1.0)
        for (name, example), vector in zip(known, vectors, strict=True):
            if name not in barred and (near := float(asked @ vector)) > best.likeness:
                best = Route(name, example, near)
        return best

    def likeness(self, left: str, right: str) -> float:
        """How alike two texts are."""
        return self._sentences.likeness(left, right)

    def nearest(self, question: str, texts: Sequence[str], count: int) -> list[int]:
        """The indexes of the texts that are most like the question, in the order in which they stand."""
        asked, *vectors = self._sentences.vectors([question, *texts])
        scores = [float(asked @ vector) for vector in vectors]
        return sorted(sorted(range(len(texts)), key=lambda at: -scores[at])[:count])


def _examples(offers: Sequence[Offer]) -> Mapping[str, Sequence[str]]:
    """Those that ship for known tools; for any other tool its own words."""
    shipped = shipped_examples()
    found = {offer.tool_id: (*shipped.get(offer.tool_id, ()), *_own(offer, shipped)) for offer in offers}
    return {**found, ANSWER: shipped[ANSWER], HELP: shipped[HELP]}


def _own(offer: Offer, shipped: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    said = tuple(normal(example) for example in offer.examples if not example.startswith("{"))
    return said if offer.tool_id in shipped else (*said, offer.purpose)


@cache
def shipped_examples() -> Mapping[str, tuple[str, ...]]:
    """What people say, by tool."""
    text = Path(__file__).with_name("examples.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), type=dict[str, tuple[str, ...]])
