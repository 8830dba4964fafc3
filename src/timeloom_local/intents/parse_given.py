"""Parses a request with its text after a colon: `put these two in FILE: A, B`, `write it to FILE. Here it is: A`."""

import re
from typing import Final

from timeloom_local.intents import wording
from timeloom_local.intents.content import to_text
from timeloom_local.intents.edits import LineInsertion, split_enumeration
from timeloom_local.intents.kinds import ChangeIntent, FileMention, Intent, WriteIntent
from timeloom_local.text_rules import find_file_names, restore_quotations

MAX_REQUEST_CHARS: Final = 500
"""Maximum length of the words before the colon."""


def parse_given(text: str, held: list[str]) -> Intent | None:
    """Parse a request for one file whose text is all that follows a colon; None if other words could be meant."""
    for at in [*re.finditer(r":(?=\s)|\s[-–—](?=\s)", text)][:4]:
        asked, given = text[: at.start()][-MAX_REQUEST_CHARS:], text[at.end() :].strip()
        names = find_file_names(asked)
        if len(names) != 1 or not given or find_file_names(given):
            continue
        before, _, after = asked.partition(names[0])
        if _NOT_ASKED.search(before):
            continue
        if _PLACE.fullmatch(before) and _VERB_AFTER.fullmatch(after):
            return _to_intent("add", FileMention(names=(names[0],)), given, held)
        request = _REQUEST.search(before)
        if request and _AFTER.fullmatch(after) and (kind := _kind(request, before, after)):
            return _to_intent(kind, FileMention(names=(names[0],)), given, held)
    return None


def _kind(request: re.Match[str], before: str, after: str) -> str:
    """Return whether text is added to a file or a file is written; empty if the verb says neither."""
    words = wording.correct_verb(request["verb"].lower())
    if _ADDS.search(before[request.start() :]) or _ADDS.search(after):
        return "add"
    if words in wording.ADD | {"want", "need", "like", "goes", "go", "belongs"}:
        return "add"
    return "write" if words in wording.WRITE else ""


def _to_intent(kind: str, mention: FileMention, given: str, held: list[str]) -> Intent | None:
    is_quoted = len(given.strip(" .")) == 1 and given.strip(" .") >= "\ue000"
    if not is_quoted and any(char >= "\ue000" for char in given):
        return None
    content = restore_quotations(given.strip(" ."), held) if is_quoted else given.strip(" ,;")
    if is_quoted:
        content = strip_signature(content)
    if kind == "write":
        return WriteIntent(file=mention, content=content if is_quoted else to_text(content, is_list=False))
    if not is_quoted:
        parts = split_enumeration(content) if ", " in content else [content]
        content = "\n".join(part.rstrip(".") for part in parts) if all(len(p.split()) <= 6 for p in parts) else content
    return ChangeIntent(mention, LineInsertion(text=content, is_quoted=is_quoted), creates=True)


def strip_signature(content: str) -> str:
    """Return a pasted text without thanks and a name at its end."""
    return _SIGNATURE.sub("", content).rstrip()


_FILLERS: Final = (
    r"(?:it|this|that|these|those|them|the|following|a|an|one|two|three|four|few|some|more|another|new|last|extra|next"
    r"|lines?|items?|things?|entry|entries|rows?|words?|text|sentences?|notes?|bits?|stuff|couple|of|down|up|also|as"
    r"|well|just|me|for|please|pls|to|too|in|into|onto|on|at|inside|under|below|end|bottom|my|our|file|document|list"
    r"|called|named|\w+ (?=(?:file|list|document|doc)\b)|us|you|with|and)"
)
_REQUEST: Final = re.compile(
    r"(?:^|(?<=[\s,.!?]))(?P<verb>add|append|apend|appned|put|pop|stick|insert|include|write|wirte|save|store"
    r"|create|creat"
    r"|make|record|keep|jot|note|want|need|like|type|log|enter|start|more|another)"
    rf"(?:[\s,]+{_FILLERS})*[\s,]*$",
    re.IGNORECASE,
)
_AFTER: Final = re.compile(
    r"(?:[\s,.!?;-]+(?:file|too|also|as well|aswell|please|pls|plz|thanks|for me|at the (?:very )?(?:end|bottom)"
    r"|(?:below|under|underneath|after|beneath) (?:what is|what's|whats|the (?:stuff|text|lines?|rest)|everything)"
    r"(?: (?:that is|that's|already|there|is|in it))*"
    r"|if (?:that's|that is|it's) not too much trouble|if you can|when you (?:can|have a (?:moment|minute|sec))"
    r"|(?:here|this) (?:it is|they are|is it|you go|is (?:the|what)[\w ]{0,30}|are (?:the|my)[\w ]{0,30})"
    r"|here(?:'s| is| are)(?: (?:the|my|what)[\w ]{0,30})?|it (?:goes|says|should say|reads)"
    r"|the (?:text|content|lines?|items?|following)(?: (?:is|are|goes))?|with|containing|saying|that says"
    r"|(?:(?:with|exactly|just|only) )*(?:this|these|the following)(?: \w+){0,2}(?: in it)?))*[\s,.]*",
    re.IGNORECASE,
)
_PLACE: Final = re.compile(
    r"(?:.{0,120}[,.!?]\s+)?(?:(?:and|also|please|so|can you|could you) )*(?:at|to|in|on|into"
    r"|under) (?:the (?:very )?(?:end|bottom) of )?(?:(?:the|my|our) )?(?:file )?",
    re.IGNORECASE,
)
_VERB_AFTER: Final = re.compile(
    r"[\s,]*(?:(?:please|pls|can you|could you|i'd like you to|i want you to|also)\s)*(?:add|write|put|append"
    r"|insert|note)"
    rf"(?:\s{_FILLERS})*\s*",
    re.IGNORECASE,
)
_NOT_ASKED: Final = re.compile(r"\b(?:don't|do not|never|not to|didn't|did|why|who|if|unless|when)\b", re.IGNORECASE)
"""Words before a file after which nothing is written: a prohibition, a question or a condition."""
_ADDS: Final = re.compile(
    r"\b(?:end|bottom|below|underneath|under|already|more|another|extra|also|add|append|apend)\b", re.IGNORECASE
)
_SIGNATURE: Final = re.compile(
    r"\n\s*\n\s*(?:(?:many |kind |best |warm )?(?:thanks?|thank you|regards|wishes|cheers|thx|love|yours)\b[^\n]{0,60}"
    r"(?:\n[^\n]{0,40}){0,2})\s*$",
    re.IGNORECASE,
)
