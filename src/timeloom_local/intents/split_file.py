"""Splits the file off the end of a request."""

import re
from typing import Final

from timeloom_local.intents.file_mentions import find_mention
from timeloom_local.intents.kinds import FileMention

AFTER_VERB: Final = re.compile(
    r"^\w[\w'-]*(?:\s(?:down|in|up|together)(?=\s)(?!\s(?:the|my)\b))?(?:\s|$)", re.IGNORECASE
)


def split_file(text: str) -> tuple[str, FileMention | None, bool]:
    """Split the file off the end of a request; the last part is whether the top of the file is meant."""
    text = text.strip(" .!")
    place = _PLACE_END.search(text)
    at_top = bool(place and place[1].lower() in _TOP)
    text = text[: place.start()] if place else text
    if lead := _LEADING_FILE.match(text):
        mention = find_mention(lead[2])
        if mention:
            return f"{lead[1]} {lead[3]}", mention, at_top
    for found in reversed([*_PREPOSITION.finditer(text)]):
        mention = find_mention(text[found.end() :])
        if mention:
            at_top = at_top or (found["place"] or "").lower() in _TOP or "first" in found[0].lower()
            before = text[: found.start()].rstrip(" ,")
            return _TO_LIST.sub("", before) if mention.names else before, mention, at_top
    return text, None, at_top


_TO_LIST: Final = re.compile(
    r"(?<=\S) (?:to|on|onto|in|into) (?:the|my|our) (?:[\w-]+ )?(?:list|file|document|table)$", re.IGNORECASE
)
"""A kind of file before its name, such as `to the list` in `to the list in NAME`."""
_TOP: Final = frozenset({"top", "beginning", "start", "head", "front"})


_PREPOSITION: Final = re.compile(
    r"\b(?:(?:on )?(?:at|to|on|in) the (?P<place>end|bottom|top|beginning|start|head|front) of|as (?:the"
    r"|a) (?:very )?(?:last|new|first) (?:line|item)? ?(?:of|in|to|on)|out of|off of|off|on to|to|into|in"
    r"|onto|on|from|of|inside|within|as|under)\s+",
    re.IGNORECASE,
)


_PLACE_END: Final = re.compile(
    r"[\s,]+(?:at|to|on|in) the (?:very )?(end|bottom|top|beginning|start|front)(?: of (?:it|the file|the list))?$",
    re.IGNORECASE,
)


_LEADING_FILE: Final = re.compile(
    r"^(\w+)(?: (?:the following|following|these|this|the|lines?|items?|words?|things?|text|two|three|four|some"
    r"|a|an|few|couple|of|more|another|extra|rows?|entry|entries|new))*"
    r" (?:to|in|into|on|onto|at the (?:very )?(?:end|bottom) of) (.{1,80}?)(?:[:,]|\s(?=the (?:line|item|text|word)"
    r"|a line|an item|[\ue000-\uf8ff]))\s*(.{1,2000})$",
    re.IGNORECASE | re.DOTALL,
)
