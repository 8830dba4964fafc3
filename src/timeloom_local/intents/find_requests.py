"""Finds the requests in a message that also has other sentences: a lead-in, a reason, an exclamation."""

import re
from collections.abc import Iterator
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
from timeloom_local.intents.parse_clause import parse_clause
from timeloom_local.intents.parse_corrections import parse_correction
from timeloom_local.intents.parse_given import parse_given
from timeloom_local.intents.prose_calculations import parse_prose_calculation

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
            return reason in ("unclear", "facts", "what", "condition")
        case _:
            return False


def find_requests(hidden: str, held: list[str]) -> list[tuple[str, Intent]]:
    """Return the requests of a message with their words; empty if it has none that is certain."""
    if found := parse_whole(hidden, held):
        return [(hidden, found)]
    sentences = [part.strip(" ,;") for part in SENTENCE_END.split(hidden)]
    sentences = [part for part in sentences if any(map(str.isalnum, part)) or any(char >= "\ue000" for char in part)]
    if len(sentences) > MAX_SENTENCES:
        return []
    requests = [found for sentence in sentences for found in _find_in_sentence(sentence, held)]
    return requests if any(not isinstance(intent, DeclineIntent) for _, intent in requests) else requests[:1]


def parse_whole(text: str, held: list[str]) -> Intent | None:
    """Parse the forms that extend over several sentences or clauses."""
    return parse_given(text, held) or parse_correction(text, held) or parse_prose_calculation(text, held)


def _find_in_sentence(sentence: str, held: list[str]) -> Iterator[tuple[str, Intent]]:
    intent = parse_clause(sentence, held)
    if not is_weak(intent) and _is_certain(sentence, intent):
        yield sentence, intent
        return
    if found := parse_whole(sentence, held):
        yield sentence, found
        return
    for start in [*_STARTS.finditer(sentence)][:MAX_STARTS]:
        part = sentence[start.end() :].strip(" ,;")
        intent = parse_clause(part, held)
        if not is_weak(intent) and _is_certain(part, intent):
            yield part, intent
            return


def _is_certain(text: str, intent: Intent) -> bool:
    """Return whether a part of a message is a request by its own words, and not by chance."""
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
            return first in wording.VERBS - _NOUNS
        case _:
            return False


SENTENCE_END: Final = re.compile(
    r"(?:[.!?…]{2,}|…|(?<![\d.])(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bMrs)(?<!\bSt)(?<!\bvs)[.!?]|(?<=[a-z)\]]\d)[.!?]"
    r"|(?<=\d)[.!?](?=\s+(?:[A-Z][a-z]|can |could |please |pls |so |now )))\s+|;\s+",
    re.IGNORECASE,
)
_STARTS: Final = re.compile(
    r",\s+(?:so|and|but|then)?\s?|\s[-–—]+\s|:\s|\s(?:so|but|and)\s(?=(?:please|pls|can|could|would|will|just|now)\b)"
    r"|\s(?=(?:so )?(?:can|could|would|will) (?:you|u) )|\s(?=(?:please|pls|plz) )"
    r"|\sso (?=[a-z]+\b)|\sand (?=(?:i(?:'d| would) like|i want|i need) you)",
    re.IGNORECASE,
)
_ASKING: Final = frozenset(
    {"what", "what's", "whats", "which", "who", "who's", "when", "where", "how", "is", "are", "does", "do"}
)
_NOUNS: Final = frozenset(
    {"note", "text", "mail", "book", "message", "cross", "plan", "post", "order", "call", "play", "share", "list",
     "average", "count", "start", "set", "see", "look", "use", "have", "check", "record", "schedule", "cat"}
)  # fmt: skip
