"""Resolves words that refer to something earlier: a result, the steps of the plan, or what the user said."""

import re
from typing import Final

from timeloom_local.intents.wording import VERBS, strip_politeness
from timeloom_local.quoting import content_words, split_sentences
from timeloom_local.steps import StepContext


def resolve_reference(reference: str, last_result: str, context: StepContext) -> str:
    """Return the text that words refer to; empty if it is not clear, so that the model asks."""
    if _STEPS.search(reference):
        steps = [step for step, _ in context.prompt.plan]
        return _count_fits(reference, steps)
    if found := _find_said(content_words(_GENERIC.sub(" ", reference)), context):
        return found
    return last_result if not content_words(_GENERIC.sub(" ", reference)) else ""


def _find_said(wanted: set[str], context: StepContext) -> str:
    """Return the newest statement of the user that has all of some words; requests and questions are none."""
    sentences = [text for said in context.prompt.said for text in split_sentences(said)] if wanted else []
    return next((text for text in reversed(sentences) if wanted <= content_words(text) and _is_statement(text)), "")


def _is_statement(text: str) -> bool:
    words = strip_politeness(text).split(maxsplit=1)
    return not text.endswith("?") and bool(words) and words[0].lower().strip(",:") not in VERBS


def _count_fits(reference: str, steps: list[str]) -> str:
    """Return the steps as lines; nothing if the reference names another number of them."""
    counts = [number for word, number in _COUNTS.items() if re.search(rf"\b{word}\b", reference, re.IGNORECASE)]
    return "\n".join(steps) if all(number == len(steps) for number in counts) else ""


_COUNTS: Final = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
_STEPS: Final = re.compile(r"\b(?:steps|tasks|plan|checklist)\b", re.IGNORECASE)
_GENERIC: Final = re.compile(
    r"\b(?:that|this|those|these|it|them|both|same|above|result|answer|number|sum|total|value|output|quote|sentence|line"
    r"|text|one|figure|amount|all|two|three|four|five|six|of|my|our|his|their)\b",
    re.IGNORECASE,
)
