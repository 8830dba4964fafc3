"""Parses requests to write a file, and to replace the whole text of one."""

import re
from typing import Final

import msgspec

from timeloom_local.intents.content import is_creative, make_file_name, parse_content
from timeloom_local.intents.file_mentions import find_mention, mentions_file_kind
from timeloom_local.intents.kinds import (
    ComposeIntent,
    DeclineIntent,
    FileMention,
    Intent,
    WriteIntent,
)
from timeloom_local.intents.split_file import AFTER_VERB, split_file
from timeloom_local.text_rules import find_file_names, restore_quotations


def parse_write(text: str, held: list[str]) -> Intent | None:
    """Parse a request to write a file."""
    text, replacing = _REPLACING.subn("", _CALLED.sub(r"\1 called \2.md", text))
    found = _parse_new_file(text, held)
    return msgspec.structs.replace(found, replaces=True) if replacing and isinstance(found, WriteIntent) else found


def parse_overwrite(text: str, held: list[str]) -> Intent | None:
    """Parse a request to replace the whole text of a file."""
    for pattern in _OVERWRITES:
        if found := pattern.fullmatch(text):
            mention = find_mention(found[1])
            if mention and (mention.names or mention.words):
                return to_write_intent(found[2], mention, held, replaces=True)
    return None


def _parse_new_file(text: str, held: list[str]) -> Intent | None:
    for pattern in _WRITE_FORMS:
        if found := pattern.fullmatch(text):
            mention = find_mention(found["file"])
            if mention and mention.names:
                return to_write_intent(found["what"] or "", mention, held)
    rest, mention, _ = split_file(text)
    what = AFTER_VERB.sub("", rest, count=1)
    if mention and (mention.names or mention.words) and not _IS_LIST_REQUEST.match(text):
        return to_write_intent(what, mention, held)
    if text.split(maxsplit=1)[0].lower() in ("save", "store", "keep", "record") and _GIVEN.search(text):
        return DeclineIntent("which_file")
    return _parse_unnamed(AFTER_VERB.sub("", text, count=1), held)


def _parse_unnamed(what: str, held: list[str]) -> Intent | None:
    """Parse a request to write something without a file: a list gets a name, a poem is answered."""
    what = re.sub(r"^(?:(?:me|us|down)\s)+", "", what, flags=re.IGNORECASE)
    if find_file_names(what):
        return DeclineIntent("edit")
    if (name := make_file_name(what)) and (items := _LIST_ITEMS.search(what)):
        return to_write_intent(items[1], FileMention(names=(name,)), held)
    if name:
        return DeclineIntent("what", name)
    if is_creative(what):
        return ComposeIntent(f"Write {restore_quotations(what, held)}")
    found = parse_content(what, held, "")
    if found.problem in ("facts", "program"):
        return DeclineIntent(found.problem)
    return DeclineIntent("which_file") if found.content and any(char >= "\ue000" for char in what) else None


def to_write_intent(what: str, mention: FileMention, held: list[str], *, replaces: bool = False) -> Intent:
    """Return the intent to write what some words describe; a refusal if they describe nothing that can be written."""
    name = mention.names[0] if mention.names else ""
    if len(mention.names) > 1:
        return DeclineIntent("edit")
    found = parse_content(what, held, name)
    if found.problem:
        return DeclineIntent(found.problem, name)
    is_in_words = bool(found.content) and found.content in what
    copied = find_mention(found.content) if is_in_words and not found.uses_result else None
    if copied and (copied.names or copied.is_attachment or mentions_file_kind(copied.words)):
        return DeclineIntent("unsupported")
    return WriteIntent(
        file=mention, content=found.content, subject=found.subject, uses_result=found.uses_result, replaces=replaces
    )


_OVERWRITES: Final = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"overwrite (.{1,100}?) (?:with|by|to say|to|so that it says)[\s:]+(.{1,4000})",
        (
            r"(?:replace|swap|change|overwrite|set) (?:everything|all(?: the)? (?:text|content|contents"
            r"|lines)?|the (?:whole|entire|full)? ?(?:text|contents?|file))\s?(?:in|of"
            r"|inside)? (.{1,100}?) (?:with|by|to)[\s:]+(.{1,4000})"
        ),
        (
            r"(?:make|change|update|rewrite|set) (\S{1,100}) (?:to )?(?:so that it )?(?:say|read"
            r"|contain)s?(?: only| just)?[\s:]+(.{1,4000}?)(?<! instead)"
        ),
        r"rewrite (.{1,100}?) (?:as|with|to|so that it says)[\s:]+(.{1,4000})",
    )
)


_FILE: Final = r"(?P<file>(?:[\w-]{1,80}/){0,8}[\w.-]{1,120}\.[A-Za-z]\w{0,4})"


_WRITE_VERB: Final = (
    r"(?:write|save|store|create|make|draft|compose|generate|produce|record|keep|start|prepare|add|put)"
)


_WRITE_FORMS: Final = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        (
            rf"{_WRITE_VERB}(?: me| us| up| yourself)?(?: an?| the| my| another| one)?(?: new| empty"
            rf"| blank| small| short| simple)*(?: text| markdown| python| csv| json"
            rf"| \.?\w{{2,8}})?(?: file| document| note| script| program| list| page)?(?: called| named"
            rf"| with the name| by the name of| titled)? {_FILE}(?:(?:[,:;]\s+|\s+(?=[\ue000-\uf8ff]"
            rf"|(?:with|containing|that|which|saying|and|so|holding|having|about|for"
            rf"|to)\b))(?P<what>.{{1,4000}}))?"
        ),
        rf"{_WRITE_VERB}(?: down| in| to| into)? (?:the |a )?(?:new )?(?:file )?{_FILE}\s?[:,]\s*(?P<what>.{{1,4000}})",
        (
            rf"{_WRITE_VERB}\b.{{0,60}}?\b(?:in|to|into|as|under) (?:the "
            rf"|a )?(?:new )?(?:file )?(?:called )?{_FILE}\s?:\s*(?P<what>.{{1,4000}})"
        ),
    )
)


_CALLED: Final = re.compile(r"\b(file|note|list|document) (?:called|named) ([\w-]{1,40})(?![\w.-])", re.IGNORECASE)


_REPLACING: Final = re.compile(
    r",?\s(?:and )?(?:replac(?:e|ing)|overwrit(?:e|ing)) (?:what's there|what is there|the (?:old"
    r"|existing|current) .{1,40}|it|everything.{0,40}|its contents?|whatever.{0,40})$",
    re.IGNORECASE,
)


_GIVEN: Final = re.compile(r"[\ue000-\uf8ff]|:\s")


_IS_LIST_REQUEST: Final = re.compile(
    r"(?:make|create|write|start|prepare)(?: me)? (?:a|an|the|my) (?:new )?(?:packing|shopping"
    r"|grocery|guest|reading|wish|to-?do) list\b(?!.*\.\w{1,5}\b)",
    re.IGNORECASE,
)


_LIST_ITEMS: Final = re.compile(
    r"\blist\b[\s,]*(?:for me )?(?:with|containing|of|that has|:|which has|including)[\s:]+(.{1,1000})$", re.IGNORECASE
)
