"""Routes a message to a tool by its similarity to example requests."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
import yaml

from timeloom_local.read_catalogue import OfferedTool
from timeloom_local.routing.embeddings import SentenceModel
from timeloom_local.text_rules import normalize_form

ANSWER: Final = "answer"
"""The route of a message that needs no tool."""

HELP: Final = "help"
"""The route of a message that asks for the model's abilities."""

MIN_ROUTE_SIMILARITY: Final = 0.3
"""Minimum similarity to an example; below it, a message is answered without a tool."""


class Route(msgspec.Struct, frozen=True):
    """The route of a message (a tool, `answer` or `help`), with the most similar example and its similarity."""

    target: str
    example: str
    similarity: float


class Router:
    """Routes messages by comparing them with examples."""

    def __init__(self, sentences: SentenceModel) -> None:
        self._sentences = sentences

    def route(self, message: str, tools: Sequence[OfferedTool], excluded: frozenset[str] = frozenset()) -> Route:
        """Return the route of the most similar example; routes in `barred` are excluded."""
        known = [(name, example) for name, some in _load_examples(tools).items() for example in some]
        asked, *vectors = self._sentences.vectors([normalize_form(message), *(example for _, example in known)])
        best = Route(ANSWER, "", MIN_ROUTE_SIMILARITY if ANSWER not in excluded else -1.0)
        for (name, example), vector in zip(known, vectors, strict=True):
            if name not in excluded and (near := float(asked @ vector)) > best.similarity:
                best = Route(name, example, near)
        return best

    def similarity(self, left: str, right: str) -> float:
        """Return the similarity of two texts."""
        return self._sentences.similarity(left, right)

    def find_nearest(self, question: str, texts: Sequence[str], count: int) -> list[int]:
        """Return the indexes of the `count` texts that are most similar to the question, in ascending order."""
        asked, *vectors = self._sentences.vectors([question, *texts])
        scores = [float(asked @ vector) for vector in vectors]
        return sorted(sorted(range(len(texts)), key=lambda at: -scores[at])[:count])


def _load_examples(tools: Sequence[OfferedTool]) -> Mapping[str, Sequence[str]]:
    """Return the examples of each tool: the shipped ones, and those of its catalogue entry."""
    shipped = load_shipped_examples()
    found = {offer.tool_id: (*shipped.get(offer.tool_id, ()), *_catalogue_examples(offer, shipped)) for offer in tools}
    return {**found, ANSWER: shipped[ANSWER], HELP: shipped[HELP]}


def _catalogue_examples(tool: OfferedTool, shipped: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    examples = tuple(normalize_form(example) for example in tool.examples if not example.startswith("{"))
    return examples if tool.tool_id in shipped else (*examples, tool.purpose)


@cache
def load_shipped_examples() -> Mapping[str, tuple[str, ...]]:
    """Return the shipped example requests by tool."""
    text = Path(__file__).with_name("examples.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), type=dict[str, tuple[str, ...]])
