"""Finds the requests in a message that also has other sentences: a lead-in, a reason, an exclamation."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from timeloom_local.intents import wording
from timeloom_local.intents.kinds import (
    CalculateIntent,
    ChangeIntent,
    DeclineIntent,
    Intent,
    PlanIntent,
    PlanStatusIntent,
    QuestionIntent,
    ReadIntent,
    RecallIntent,
    SearchIntent,
    SmallTalkIntent,
    WriteIntent,
)
from timeloom_local.intents.parse_clause import is_refused, parse_clause
from timeloom_local.intents.parse_corrections import parse_correction
from timeloom_local.intents.parse_given import parse_given
from timeloom_local.intents.parse_plans import parse_listed_plan
from timeloom_local.intents.prose_calculations import parse_prose_calculation
from timeloom_local.text_rules import split_message

MAX_SENTENCES: Final = 12
"""Maximum number of sentences of a message that are searched for requests."""

MAX_STARTS: Final = 12
"""Maximum number of places in a sentence at which a request is looked for."""


def is_weak(intent: Intent) -> bool:
    """Return whether a clause asks for nothing, so that it may be the lead-in of a request beside it."""
    match intent:
        case SmallTalkIntent(kind=kind):
            return kind in ("statement", "nothing", "hello", "thanks", "yes")
        case DeclineIntent(reason=reason):
            return reason in ("unclear", "facts", "what")
        case _:
            return False


def find_requests(hidden: str, held: list[str], split: Callable[[str], list[str]]) -> list[tuple[str, Intent]]:
    """Return the requests of a message with their words; empty if it has none that is certain."""
    if found := parse_whole(hidden, held):
        return [(hidden, found)]
    sentences = split_message(hidden)
    if len(sentences) > MAX_SENTENCES:
        return []
    requests = [found for sentence in sentences for found in _find_in_sentence(sentence, held, split)]
    return requests if any(not isinstance(intent, DeclineIntent) for _, intent in requests) else requests[:1]


def parse_whole(text: str, held: list[str]) -> Intent | None:
    """Parse the forms that extend over several sentences or clauses."""
    if is_refused(text):
        return parse_prose_calculation(text, held)
    return (
        parse_listed_plan(text, held)
        or parse_given(text, held)
        or parse_correction(text, held)
        or parse_prose_calculation(text, held)
    )


def _find_in_sentence(
    sentence: str, held: list[str], split: Callable[[str], list[str]]
) -> Iterator[tuple[str, Intent]]:
    declined = _parse_certain(sentence, held, split)
    if declined and not any(isinstance(intent, DeclineIntent) for _, intent in declined):
        yield from declined
        return
    if whole := parse_whole(sentence, held):
        yield sentence, whole
        return
    for start in [] if declined or is_refused(sentence) else [*_STARTS.finditer(sentence)][:MAX_STARTS]:
        part = sentence[start.end() :].strip(" ,;")
        if found := _parse_certain(part, held, split, is_asked=bool(_ASKED_START.search(start[0]))):
            yield from found
            return
    for end in [] if is_refused(sentence) else [*_ENDS.finditer(sentence)][:MAX_STARTS]:
        part = sentence[: end.start()].strip(" ,;")
        found = _parse_certain(part, held, split)
        if found and not any(isinstance(intent, DeclineIntent) for _, intent in found):
            yield from found
            return
    yield from declined


def _parse_certain(
    text: str, held: list[str], split: Callable[[str], list[str]], *, is_asked: bool = False
) -> list[tuple[str, Intent]]:
    """Return the intents of a clause, split at `and` before a verb; empty if one of them is not certain."""
    parsed = [(part, parse_clause(part, held)) for part in split(text)]
    return parsed if all(_is_certain(part, intent, is_asked=is_asked) for part, intent in parsed) else []


def _is_certain(text: str, intent: Intent, *, is_asked: bool) -> bool:
    """Return whether a part of a message is a request by its own words, and not by chance."""
    if is_weak(intent):
        return False
    words = wording.strip_politeness(text).split(maxsplit=1)
    first = words[0].lower().strip(",:") if words else ""
    match intent:
        case ChangeIntent(file=file) | ReadIntent(file=file):
            return bool(file.names) or first in wording.VERBS or (first in wording.QUESTION and file.is_attachment)
        case WriteIntent() | PlanIntent() | PlanStatusIntent() | SearchIntent() | CalculateIntent():
            return True
        case RecallIntent():
            return intent.is_explicit or first in wording.QUESTION
        case QuestionIntent():
            return first in _ASKING
        case DeclineIntent():
            if text.split(maxsplit=1)[0].lower().endswith("ing"):
                return False  # “Moving soon” tells something
            return first in (wording.VERBS if is_asked else wording.VERBS - _NOUNS)
        case _:
            return False


_STARTS: Final = re.compile(
    r",\s+(?:so|and|but|then)?\s?|\s[-–—]+\s|:\s|\s(?:so|but|and)\s(?=(?:please|pls|can|could|would|will|just|now)\b)"
    r"|\s(?=(?:so )?(?:can|could|would|will) (?:you|u) )|\s(?=(?:please|pls|plz) )"
    r"|\sso (?=[a-z]+\b)|\sand (?=(?:i(?:'d| would) like|i want|i need) you)",
    re.IGNORECASE,
)
_ASKED_START: Final = re.compile(r"\b(?:so|please|pls|plz|can|could|would|will|you)\b", re.IGNORECASE)
_ENDS: Final = re.compile(
    r"(?:,|\s-+)\s+(?=(?:want|wanna|i|i'm|im|i've|i'll|we|we're|my|so|because|since|cause|cos|coz|it|it's|its|the|that"
    r"|they|need|thanks|before|otherwise|as|just|hope|asap|cheers|you|he|she|this|there|please|pls|ok)\b)"
    r"|\s(?=(?:because|since|cause|cos|so that|so (?:i|we|that|they|he|she|it)|before i|in case) )",
    re.IGNORECASE,
)
"""Beginnings of reasons and remarks after a request."""
_ASKING: Final = frozenset(
    {"what", "what's", "whats", "which", "who", "who's", "when", "where", "how", "is", "are", "does", "do"}
)
_NOUNS: Final = frozenset(
    {"note", "text", "mail", "book", "message", "cross", "plan", "post", "order", "call", "play", "share", "list",
     "average", "count", "start", "set", "see", "look", "use", "have", "check", "record", "schedule", "cat"}
)  # fmt: skip
