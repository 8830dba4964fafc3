"""Parses requests to add to a file, to change words of it and to remove lines."""

import re
from typing import Final

from timeloom_local.intents import wording
from timeloom_local.intents.content import RESULT_WORDS, is_factual
from timeloom_local.intents.edits import LineInsertion, parse_change, parse_insertion, parse_removal
from timeloom_local.intents.file_mentions import find_mention
from timeloom_local.intents.kinds import (
    ChangeIntent,
    DeclineIntent,
    FileMention,
    Intent,
    SmallTalkIntent,
    WriteIntent,
)
from timeloom_local.intents.split_file import AFTER_VERB, split_file
from timeloom_local.text_rules import find_file_names


def parse_add(text: str, held: list[str]) -> Intent | None:
    """Parse a request to add something to a file."""
    rest, mention, at_top = split_file(text)
    body = AFTER_VERB.sub("", rest, count=1)
    edit = parse_insertion(body, held, at_top=at_top)
    verb = text.split(maxsplit=1)[0].lower()
    if edit and mention and not edit.is_quoted and any(map(RESULT_WORDS.fullmatch, (edit.text, body))):
        return WriteIntent(file=mention, uses_result=True, appends=True)
    if edit and _POSITION.search(body):
        return DeclineIntent("edit")
    if edit and not edit.is_quoted and find_file_names(edit.text):
        return DeclineIntent("unsupported")
    if edit and mention and not edit.is_quoted and is_factual(body):
        return DeclineIntent("facts")
    if edit is None or (not edit.is_quoted and (_VAGUE.fullmatch(edit.text) or _UNSAID.fullmatch(body))):
        return DeclineIntent("what", mention.names[0]) if mention and mention.names else None
    if mention is None:
        is_short = len(body.split()) <= _MAX_ITEM_WORDS and verb in ("add", "append", "include")
        return ChangeIntent(FileMention(), edit) if is_short else None
    return ChangeIntent(mention, edit, creates=verb in ("put", "jot", "note", "record", "stick"))


def parse_note(text: str, held: list[str]) -> Intent | None:
    """Parse `note A in FILE`, which adds to a file or begins it."""
    cut = re.sub(r"^(?:note|jot|record|write)(?: down)?(?: that)?[\s:,]+", "add ", text, flags=re.IGNORECASE)
    found = parse_add(cut, held)
    if isinstance(found, ChangeIntent):
        return ChangeIntent(found.file, found.edit, creates=True)
    return SmallTalkIntent("statement") if not find_file_names(text) else None


def parse_change_request(text: str, held: list[str]) -> Intent | None:
    """Parse a request to change words of a file."""
    if (renames := _RENAME.match(text)) and (find_file_names(renames[0]) or "file" in renames[0].lower()):
        return DeclineIntent("unsupported")
    rest, mention, _ = split_file(text)
    if mention is None and len(names := find_file_names(text)) == 1 and (inner := find_mention(names[0])):
        rest, mention = re.sub(rf"\s?(?:in|of|from|inside) (?:the file )?{re.escape(names[0])}", "", text), inner
    edit = parse_change(rest, held)
    if edit is None:
        return DeclineIntent("edit") if mention else None
    return ChangeIntent(mention or FileMention(), edit)


def parse_instead(text: str, held: list[str]) -> Intent | None:
    """Parse `make it A instead of B`."""
    return parse_change_request(text, held) if _INSTEAD.search(text) else None


def parse_remove(text: str, held: list[str]) -> Intent | None:
    """Parse a request to remove something from a file; whole files are not deleted."""
    rest, mention, _ = split_file(text)
    body = re.sub(
        r"^(?:remove|delete|drop|erase|strike|cross|scratch|take)(?: out| off| away)?\s*", "", rest, flags=re.IGNORECASE
    )
    body = re.sub(r"\s(?:out|off|away)$", "", body.strip(), flags=re.IGNORECASE)
    verb = text.split(maxsplit=1)[0].lower()
    if mention is None and len(body.split()) <= _MAX_ITEM_WORDS and not _NO_ITEM.search(body):
        edit = parse_removal(re.sub(r"\sline$", "", body), held)
        return ChangeIntent(FileMention(), edit) if edit else None
    if mention is None or not body or _EVERYTHING.fullmatch(body):
        return (
            None
            if verb in ("take", "drop", "strike", "cross", "scratch") and mention is None
            else DeclineIntent("delete")
        )
    edit = parse_removal(body, held)
    return ChangeIntent(mention, edit) if edit else None


def parse_file_first(text: str, held: list[str]) -> Intent | None:
    """Parse `in FILE, do A`, `FILE: do A` and `FILE should say A instead of B`."""
    for pattern in _FILE_FIRST:
        if not (found := pattern.fullmatch(text)) or not (mention := find_mention(found[1])):
            continue
        rest = wording.strip_politeness(found[2])
        verb = rest.split(maxsplit=1)[0].lower() if rest.split() else ""
        if (edit := parse_change(rest, held)) and not isinstance(edit, LineInsertion):
            return ChangeIntent(mention, edit)
        inner = _parse_by_verb(verb, rest, held) if verb in wording.ADD | wording.REMOVE | wording.CHANGE else None
        if inner is None and verb in wording.ADD:
            inner = DeclineIntent("which_file")
        if isinstance(inner, DeclineIntent) and verb in wording.ADD | wording.REMOVE:
            joined = f"{rest} {'from' if verb in wording.REMOVE else 'to'} {found[1]}"
            inner = _parse_by_verb(verb, joined, held)
        if isinstance(inner, ChangeIntent):
            return ChangeIntent(mention, inner.edit, inner.creates)
        if isinstance(inner, DeclineIntent):
            return DeclineIntent("edit")
    return None


def parse_forgotten_item(text: str, held: list[str]) -> Intent | None:
    """Parse a whole message such as `I forgot A. Could you add it to FILE?`."""
    found = _FORGOTTEN.fullmatch(text)
    mention = find_mention(found[2]) if found else None
    edit = parse_insertion(found[1], held, at_top=False) if found else None
    return ChangeIntent(mention, edit) if mention and edit else None


def parse_wish(text: str, held: list[str]) -> Intent | None:
    """Parse a wish that adds to a file without a verb of adding, such as `FILE needs A`."""
    for pattern, thing, file in _WISHES:
        if found := pattern.fullmatch(text):
            mention, edit = find_mention(found[file]), parse_insertion(found[thing], held, at_top=False)
            if mention and edit:
                return ChangeIntent(mention, edit)
    return None


def _parse_by_verb(verb: str, text: str, held: list[str]) -> Intent | None:
    """Parse a request that follows the name of a file."""
    parsers = ((wording.ADD, parse_add), (wording.CHANGE, parse_change_request), (wording.REMOVE, parse_remove))
    return next(
        (found for verbs, parse in parsers if verb in verbs and (found := parse(text, held))), DeclineIntent("edit")
    )


_WISHES: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), thing, file)
    for pattern, thing, file in (
        (
            (
                r"(.{1,120}?) (?:should|must|has to|have to|need(?:s)? to|ought to|can) (?:also )?(?:go|be"
                r"|be added|be put|be included|get added) (?:to|in|into|on|onto) (.{1,80}?)(?: too| as well"
                r"| also)?[.!]?"
            ),
            1,
            2,
        ),
        (
            (
                r"(?:i|we)(?:'d| would)? (?:want|need|like|love)(?: to have| to get"
                r"| to see)? (.{1,120}?) (?:added|put|included|inserted|appended|written) (?:to|in|into|on"
                r"|onto) (.{1,80}?)[.!]?"
            ),
            1,
            2,
        ),
        (
            (
                r"((?:my |the |our )?\S.{0,60}?) (?:needs|is missing|lacks|should (?:also )?(?:have|include"
                r"|contain|list)|is still missing) (.{1,120}?)(?: too| as well| also)?[.!]?"
            ),
            2,
            1,
        ),
    )
)


_FORGOTTEN: Final = re.compile(
    r"(?:i (?:just )?(?:realised|realized|noticed|remembered|see)(?: that)? )?(?:i|we) (?:still "
    r"|also |just )?(?:forgot|need|want"
    r"|left out|have to bring|missed|would like|noticed)(?: about| to (?:add|mention|pack|buy))? (.{1,120}?)[,.;:!-]+ "
    r"(?:so |please |can you |could you |would you |and )*(?:add|put|include|append|stick|pop) (?:it"
    r"|that|them|this|those|these)"
    r" (?:to|in|into|on|onto) (.{1,80}?)[.!?]?",
    re.IGNORECASE,
)
_MAX_ITEM_WORDS: Final = 8


_POSITION: Final = re.compile(
    r"(?:^|[\ue000-\uf8ff]|\s)\s?(?:before|after|between|above|below|underneath|next to)\s", re.IGNORECASE
)


_UNSAID: Final = re.compile(
    r"(?:my|our|his|her|their) (?:\w+ )?(?:address|number|e-?mail|name|birthday|password|pin|code|age|opinion"
    r"|thoughts)",
    re.IGNORECASE,
)
"""Words that name something that the message does not say."""


_VAGUE: Final = re.compile(
    r"(?:\d+|two|three|four|some|a few|a couple of) more [\w ]+|it|that|this|them|those|these|more|(?:(?:new"
    r"|another|some|more|few|a|an|the|couple of|nice"
    r"|good)\s)*(?:heading|title|headline|date|lines?|items?|sections?"
    r"|paragraphs?|rows?|columns?|table|summary|conclusion|introduction|text|words?|things?|stuff"
    r"|content|details|examples?|emojis?|jokes?|poem|something|anything|ideas?)",
    re.IGNORECASE,
)


_INSTEAD: Final = re.compile(r"\b(?:instead of|rather than)\b", re.IGNORECASE)


_RENAME: Final = re.compile(r"(?:rename|change the (?:name|filename) of|move)\b.*?\bto\b", re.IGNORECASE)


_EVERYTHING: Final = re.compile(
    r"(?:everything|all|it all|all (?:of )?(?:the |its )?(?:text|contents?|lines|words|items|files?)"
    r"|the (?:whole|entire)? ?(?:text|contents?|file)|anything|whatever.*|files?|any)",
    re.IGNORECASE,
)


_NO_ITEM: Final = re.compile(
    r"^$|\b(?:file|files|folder|everything|all|list|lists|notes?|document|documents|account|data|disk"
    r"|drive|history|conversation|chat"
    r"|messages?|computer|system|database|yourself|workspace|plan|it|them|this|that)\b|\.\w{1,5}\b",
    re.IGNORECASE,
)
_FILE_FIRST: Final = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"(?:in|to|on|at|from|inside|within|for|at the end of|at the top of) ([^,:]{1,80}?)[,:]\s(.{1,1000})",
        r"(?:in|to|on|from|inside) (\S{1,80}\.\w{1,5}) (.{1,1000})",
        r"(\S{1,80}\.\w{1,5})\s?[:,]\s(.{1,1000})",
        r"(?:update|change|edit|modify|fix|correct)\s(\S{1,80}\.\w{1,5})\s?[:,]\s(.{1,1000})",
        r"(\S{1,80}\.\w{1,5}) ((?:should|must|has to|needs to|ought to) .{1,1000})",
        r"((?:my|the|our) [\w -]{1,60}?) ((?:should|must|has to|needs to|ought to) (?:say|be|read) .{1,1000})",
    )
)
