"""Finds the sentences of a text that answer a question, to quote them."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom_local.routing.router import Router

MAX_SENTENCES: Final = 200
"""Maximum number of sentences of a text that are searched for an answer."""

MIN_SIMILARITY: Final = 0.45
"""Minimum similarity of a question and a sentence that shares none of its words; below it, nothing is quoted."""

MIN_SHARED: Final = 0.5
"""Minimum share of a question's words that a quoted sentence has, if it is less similar than that."""


class FoundSentence(msgspec.Struct, frozen=True):
    """A sentence with its score, its place, and the share of the question's words that it has."""

    text: str
    score: float
    place: int
    shared: float


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, without headings; a line break ends one, too."""
    lines = text.splitlines()
    lines = [line for line in lines if not line.startswith("#")] or lines
    found = (part.strip() for line in lines for part in _SENTENCE.split(line))
    return [part[:_MAX_SENTENCE_CHARS] for part in found if any(map(str.isalnum, part))][:MAX_SENTENCES]


def find_answers(
    question: str, sentences: Sequence[str], router: Router, *, strict: bool = False
) -> list[FoundSentence]:
    """Return up to two sentences that answer a question, best first; `strict` also needs shared words."""
    wanted = content_words(question)
    if not sentences:
        return []
    scores = router.similarities(question, sentences)
    found = [
        FoundSentence(text, near + shared / 2 + _fit(question, text), place, shared)
        for place, (text, near) in enumerate(zip(sentences, scores, strict=True))
        if _is_answer(near + _fit(question, text), shared := _share(wanted, content_words(text)), strict=strict)
    ]
    found.sort(key=lambda one: -one.score)
    best = [one for one in found[:_MAX_QUOTED] if one.score >= found[0].score * _NEARLY]
    # A question for an amount or a time is also answered by the best sentence that has one.
    fitting = [one for one in found if _fit(question, one.text)][:1]
    return best if strict or not fitting or fitting[0] in best else [fitting[0], *best[:1]]


def find_central(sentences: Sequence[str], router: Router, count: int) -> list[str]:
    """Return the sentences that are most similar to the whole text, in their order."""
    scores = router.similarities(" ".join(sentences)[:_MAX_CENTRE_CHARS], sentences)
    best = sorted(range(len(sentences)), key=lambda at: -scores[at])[:count]
    return [sentences[at] for at in sorted(best)]


def content_words(text: str) -> set[str]:
    """Return the roots of the words of a text that carry its meaning; words of like meaning have one root."""
    words = (word.lower().removesuffix("'s") for word in _WORD.findall(text.replace("’", "'")))
    return {_SYNONYMS.get(root, root) for word in words if word not in _STOP_WORDS and (root := _root(word))}


def _is_answer(near: float, shared: float, *, strict: bool) -> bool:
    if strict:
        return shared >= _STRICT_SHARED or (shared >= MIN_SHARED and near >= MIN_SIMILARITY)
    return near >= MIN_SIMILARITY or (shared >= MIN_SHARED and near >= _MIN_WITH_WORDS) or shared >= _STRICT_SHARED


def _fit(question: str, sentence: str) -> float:
    """Return a bonus for a sentence that has the kind of thing that a question asks for: an amount or a time."""
    return next((0.2 for asks, has in _ASKED_KINDS if asks.search(question) and has.search(sentence)), 0.0)


def _share(wanted: set[str], there: set[str]) -> float:
    return len(wanted & there) / len(wanted) if wanted else 0.0


def _root(word: str) -> str:
    for ending, root in (("ies", "y"), ("ment", ""), ("ing", ""), ("ed", ""), ("es", "e"), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= _MIN_ROOT and not word.endswith("ss"):
            return (word[: -len(ending)] + root).removesuffix("e")
    return word.removesuffix("e") if len(word) > _MIN_ROOT else word


_ASKED_KINDS: Final = tuple(
    (re.compile(asks, re.IGNORECASE), re.compile(has, re.IGNORECASE))
    for asks, has in (
        (
            r"\bhow (?:much|expensive)|\b(?:price|cost|amount|fee|pay)\b",
            r"[€$£]\s?\d|\d\s?(?:€|\$|£|euros?|dollars?|pounds?|eur|usd|percent|%)",
        ),
        (
            r"\bwhen\b|\bwhat (?:time|day|date)\b",
            (
                r"\d{1,2}[:.]\d\d|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day|\bnoon\b|o'clock"
                r"|\b(?:january|february|march|april|may|june|july|august|september|october|november"
                r"|december)\b|\b[12]\d{3}\b|\b\d{1,2} ?[ap]\.?m"
            ),
        ),
        (
            r"\bhow (?:many|long|old|far|tall)\b",
            r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|hundred)\b",
        ),
    )
)
_MAX_QUOTED: Final = 2
_NEARLY: Final = 0.85
_MAX_SENTENCE_CHARS: Final = 400
_MAX_CENTRE_CHARS: Final = 1_200
_MIN_ROOT: Final = 3
_MIN_WITH_WORDS: Final = 0.25
_STRICT_SHARED: Final = 0.99
_SENTENCE: Final = re.compile(r"(?<=[.!?])(?<!\b(?:Dr|Mr|Ms|St|No|vs)\.)(?<!\bMrs\.)\s+")
_WORD: Final = re.compile(r"[^\W_]+(?:'[a-z]+)?")
_STOP_WORDS: Final = frozenset(
    re.split(
        r"\s+",
        "a an the is are was were be been am do does did doing has have had can could will would "
        "shall should may might must "
        "i me my mine myself you your yours we us our he him his she her it its they them their this "
        "that these those there "
        "here what what's whats which who whos who's whom whose when when's where where's why how how's "
        "and or but if then than "
        "of to in on at by for from with about into onto as up out off over under again so not no "
        "nor only own same too very "
        "just also say said tell told mention mentioned ask asked know remember recall remind please "
        "earlier before ago "
        "conversation name names named call called much many any some something anything thing things going go get got "
        "favourite favorite according text file document attachment attached does doesn't don't "
        "exactly currently right now "
        "quote cite line sentence "
        "today last week i'm i've i'd talk talked let give gave want wanted really still already kind type sort did",
    )
)
_SYNONYMS: Final = {
    "job": "work", "profession": "work", "occupation": "work", "colour": "color", "mum": "mother", "mom": "mother",
    "dad": "father", "pric": "cost", "begin": "start", "liv": "live", "hom": "live", "born": "birthday",
    "tue": "tuesday", "wed": "wednesday", "thu": "thursday", "fri": "friday",
    "vacation": "holiday", "travel": "trip", "travell": "trip",
    "flight": "fly", "allergic": "allergy", "ag": "old",
}  # fmt: skip
