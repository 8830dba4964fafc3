"""Parses requests to show a file or to say something about it."""

import re
from typing import Final

from timeloom_local.intents.file_mentions import find_mention
from timeloom_local.intents.file_questions import parse_about_files, parse_search
from timeloom_local.intents.kinds import (
    Intent,
    ReadIntent,
    SearchIntent,
)
from timeloom_local.text_rules import restore_quotations


def parse_read(text: str, held: list[str]) -> Intent | None:
    """Parse a request to show a file, a line of it, or sentences of it."""
    plain = text.rstrip(" ?.!")
    searched = parse_search(plain, held)
    if isinstance(searched, SearchIntent | ReadIntent):
        return searched
    if asks := _READ_AND_TELL.fullmatch(plain):
        mention = find_mention(asks[1])
        if mention:
            return ReadIntent(file=mention, kind="question", words=restore_quotations(asks[2], held))
    if found := _SUMMARIZE.fullmatch(plain):
        mention = find_mention(found[1])
        return ReadIntent(file=mention, kind="summary") if mention else None
    question = parse_about_files(plain, held)
    if isinstance(question, ReadIntent) and question.kind in ("contains", "line"):
        return question
    body = _READ_WORDS.sub("", _READ_TAIL.sub("", plain))
    mention = find_mention(body)
    if mention is None and (inner := _SHOWN_PART.fullmatch(body)):
        mention = find_mention(inner[1])
    return ReadIntent(file=mention) if mention else None


_READ_AND_TELL: Final = re.compile(
    r"(?:read|look at|open|go through|check|have a look at|look in|look into|see|use"
    r"|take) (.{1,80}?) (?:and|to|,) ?(?:then )?(?:tell|say|answer|find out|find|let me know|see"
    r"|explain|show|give)(?: me)? (.{1,300})",
    re.IGNORECASE,
)


_SUMMARIZE: Final = re.compile(
    r"(?:summari[sz]e|give me (?:a |the )?(?:short |brief )?(?:summary|gist|overview) of"
    r"|sum up) (.{1,80}?)(?: in .{1,40}| for me| briefly| shortly)?",
    re.IGNORECASE,
)


_READ_WORDS: Final = re.compile(
    r"^(?:show|read|open|display|print|view|cat|see|look|check|list|let|give|pull|bring|have|go"
    r"|get)\b(?:\s(?:me|us|at|through|into|up|out|back|over|again|once more|see|read|have|a look|look"
    r"|take|to"
    r"|(?:the |all |all the )?(?:contents?|text|items|lines|names|everything|things|stuff)(?: of| in"
    r"| on| from)?|what(?:'s| is)(?: written)? (?:in|on|inside)|everything (?:in|on)"
    r"|what i have (?:in|on)))*\s+",
    re.IGNORECASE,
)


_READ_TAIL: Final = re.compile(
    r"(?:\s(?:to me|(?:to|on) (?:the|my) screen|back to me|back|out loud|aloud|again|once more|for me"
    r"|out|now|so i can (?:see"
    r"|check|read) it|and show it|please|here|in full|completely|(?:at|from) the moment))+$",
    re.IGNORECASE,
)


_SHOWN_PART: Final = re.compile(r".{1,60}?\b(?:in|on|from|of|inside) (.{1,80})", re.IGNORECASE)
