"""Recognizes words that refer to a text instead of being one, such as `those opening hours` or `her on the list`."""

import re
from typing import Final

from msgspec.structs import replace

from timeloom_local.intents.edits import LineInsertion, TextReplacement
from timeloom_local.intents.kinds import ChangeIntent, DeclineIntent, Intent, WriteIntent


def resolve_in_message(intent: Intent, message: str, held: list[str]) -> Intent:
    """Return the intent with a reference resolved from the message itself; otherwise it is marked as a reference."""
    match intent:
        case WriteIntent(uses_result=True, appends=True) if added := _ADDED.search(message):
            named = find_antecedent(added[1], message)
            return replace(intent, content=named, uses_result=False) if named else intent
        case WriteIntent(content=content) if reference := find_reference(content, message, held):
            named = find_antecedent(reference, message)
            return replace(intent, content=named, reference="" if named else reference)
        case ChangeIntent(edit=LineInsertion(text=text) as edit) if reference := find_reference(text, message, held):
            named = find_antecedent(reference, message)
            is_line = edit.is_line or "\n" in named
            edit = replace(edit, text=named, is_quoted=True, is_line=is_line) if named else edit
            return replace(intent, edit=edit, reference="" if named else reference)
        case ChangeIntent(edit=TextReplacement(new=new)) if find_reference(new, message, held):
            return DeclineIntent("edit")
        case _:
            return intent


def find_reference(content: str, message: str, held: list[str]) -> str:
    """Return the words to write if they only refer to something; quoted words, and words after a colon, never do."""
    before = message[: max(message.find(content), 0)]
    determiner = _DETERMINER.search(before)
    words = f"{determiner[0]}{content}" if determiner else content
    if not REFERENCE.match(words) or _SENTENCE.match(words) or "\n" in content:
        return ""
    if any(content in text for text in held) or before.rstrip().endswith((":", "-", "–", "—")):
        return ""
    return words


def find_antecedent(reference: str, message: str) -> str:
    """Return what a pronoun means by the words before it in a message: a named person, or a thing that is needed."""
    added = _ADDED.search(message)
    before = message[: added.start() if added else max(message.find(reference), 0)]
    pronoun = _PRONOUN.match(reference)
    if not pronoun:
        return ""
    names = list(dict.fromkeys(_NAME.findall(before)))
    if pronoun[1].lower() in ("her", "him"):
        return names[0] if len(names) == 1 else ""
    if pronoun[1].lower() in ("them", "both", "both of them") and len(names) > 1:
        return "\n".join(names)
    needed = [found[1].strip() for found in _NEEDED.finditer(before)]
    return needed[0] if len(needed) == 1 and not names else ""


REFERENCE: Final = re.compile(
    r"(?:that|this|those|these|it|them|her|him|both|both of (?:them|those|these)|all of (?:it|them|that|this|those)"
    r"|the (?:same|following|above)|the (?:two|three|four|five|six) (?:steps|things|items|names|lines|tasks|points)"
    r"|(?:my|our|his|their) (?:(?:new|own|last|first|home|work|office|opening|phone|mobile|e-?mail|postal) )?"
    r"(?:address|numbers?|name|hours|birthday|e-?mail|message|answer|words|steps|plan|details|order|date|size|budget))"
    r"(?![\w'’-])",
    re.IGNORECASE,
)
"""The beginning of words that refer to something."""
_DETERMINER: Final = re.compile(r"(?:\b(?:that|this|those|these|the|my|our|his|their)\s)+$", re.IGNORECASE)
_SENTENCE: Final = re.compile(
    r"(?:that|this|those|these|it|both|them)(?:'s|’s| (?:is|was|are|were|will|has|have|had|can|could|would|should|must"
    r"|may|might|does|did|do|needs?|costs?|takes?|looks?|works?|goes|comes?|makes?|rains?|rained|snowed)\b)"
    r"|(?:that|this|those|these|my|our|his|their|the same) (?:[\w-]+ ){1,3}?(?:is|was|are|were|will|has|had|can"
    r"|must)\b",
    re.IGNORECASE,
)
"""Words that begin like a reference, but are a sentence of their own."""
_PRONOUN: Final = re.compile(
    r"(her|him|them|both of them|both|it)(?: too| both| all| also)?(?: (?:on|onto|to|in|into|down on)"
    r" (?:the|my|our|that) (?:[\w-]+ )?(?:list|file|table|sheet|notes?))?$",
    re.IGNORECASE,
)
_ADDED: Final = re.compile(r"\b(?:add|put|append|include|stick|pop) (it|them|both|her|him)\b", re.IGNORECASE)
_NAME: Final = re.compile(
    r"(?<![.!?] )(?<!^)(?<!\w)(?!I\b|I'|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b)[A-Z][a-z]+(?: [A-Z][a-z]+)?(?!\w)"
    r"|(?:(?<=[.!?] )|^)[A-Z][a-z]+(?: [A-Z][a-z]+)?(?= (?:is|was|will|can|has|wants|would|said|also|and [A-Z]))"
)
_NEEDED: Final = re.compile(
    r"\b(?:need|needs|out of|forgot|forgotten|ran out of|running low on|missing)(?: (?:also|some|more|the|a|an|to buy"
    r"|to get|about))* ([a-z-]+(?: [a-z-]+){0,2}?)(?=[.,;!?]"
    r"|\s+(?:too|as well|also|so|and|please|can|could|pls)\b|\s*$)",
    re.IGNORECASE,
)
