"""Parses corrections of words in a file: `I spelled it wrong in FILE, it should be A not B`."""

import re
from typing import Final

from timeloom_local.intents.edits import TextReplacement
from timeloom_local.intents.kinds import ChangeIntent, FileMention, Intent
from timeloom_local.text_rules import find_file_names, restore_quotations

MAX_WORDS: Final = 6
"""Maximum number of words that a correction replaces, unless they are quoted."""


def parse_correction(text: str, held: list[str]) -> Intent | None:
    """Parse a correction of one file; None if the words or the file are not certain."""
    names = find_file_names(text)
    if len(names) != 1:
        return None
    plain = " ".join(_FILE_PLACE.sub(" ", text.replace(names[0], _MARK)).split())
    for pattern, old, new in _FORMS:
        if (found := pattern.search(plain)) and (edit := _edit(found[old], found[new], held)):
            return ChangeIntent(FileMention(names=(names[0],)), edit)
    return None


def _edit(old: str, new: str, held: list[str]) -> TextReplacement | None:
    parts = [_words(part, held) for part in (old, new)]
    return TextReplacement(parts[0], parts[1]) if all(parts) and parts[0] != parts[1] else None


def _words(part: str, held: list[str]) -> str:
    """Return the words of one side; empty if they are a pronoun, too many, or quoted only in part."""
    part = _ARTICLE.sub("", part.strip(" ,;:.!?"))
    if any(char >= "\ue000" for char in part):
        return restore_quotations(part, held) if len(part) == 1 else ""
    if _MARK in part or _NO_WORDS.fullmatch(part) or _VERBS.search(part) or len(part.split()) > MAX_WORDS:
        return ""
    return part


_MARK: Final = "FILE_NAME"
_FILE_PLACE: Final = re.compile(rf"\s?(?:in|of|on|from|inside) (?:the |my |our )?(?:file )?{_MARK}", re.IGNORECASE)
_ARTICLE: Final = re.compile(r"^(?:the )?(?:(?:word|name|text|phrase|number) )?(?:on |at )?", re.IGNORECASE)
_NO_WORDS: Final = re.compile(
    r"(?:|it|that|this|them|there|something|anything|wrong|(?:a |the )?(?:mistake|typo|error)|so|what|which)",
    re.IGNORECASE,
)
_VERBS: Final = re.compile(r"\b(?:should|must|ought|supposed|can you|could you)\b", re.IGNORECASE)
_MUST: Final = (
    r"(?:should(?:'ve| have)?|must|needs to|has to|ought to|is supposed to|was supposed to)(?: been| be| say| read)+"
)
_A: Final = r"([^,.;!?]{1,80}?(?:\.\d+)?)"
_B: Final = r"([^,;!?]{1,80}?)"
_END: Final = r"(?=\s*(?:[,;!?]|\.(?:\s|$)|$|\s(?:can|could|please|pls|so|fix|correct|change)\b))"
_FORMS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), old, new)
    for pattern, old, new in (
        (
            (
                rf"\b(?:it(?:'s| is)?|that|this|which|he|she|they|(?:the|her|his|their|my"
                rf"|our) [\w ]{{1,30}}?) (?:really |actually )?"
                rf"(?:{_MUST} )?(?:spelled |called |written )?{_A},? (?:and )?(?:not|instead of|rather than) {_B}{_END}"
            ),
            2,
            1,
        ),
        (
            (
                rf"\b(?:i|we) (?:wrote|put|typed|spelled|spelt|said|have|had) {_A}(?: {_MARK})?,?"
                rf" (?:but|and|when|where) "
                rf"(?:i (?:meant|wanted)|it {_MUST}|it's(?: actually)?|it is(?: actually)?|i mean)(?: to (?:say"
                rf"|write|put|be))? {_B}{_END}"
            ),
            1,
            2,
        ),
        (rf"\b(?:it|{_MARK}) (?:says|reads|has) {_A},? (?:but|and|when) (?:it |that |this )?{_MUST} {_B}{_END}", 1, 2),
        (rf"(?:^|[:,.] ?){_A} {_MUST} {_B}{_END}", 1, 2),
    )
)
