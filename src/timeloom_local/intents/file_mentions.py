"""Recognizes how a phrase refers to a file."""

import re
from typing import Final

from timeloom_local.intents.kinds import FileMention
from timeloom_local.text_rules import find_file_names

FILE_WORDS: Final = frozenset(
    re.split(
        r"\s+",
        "file files list lists note notes document documents text page doc todo diary journal log letter poem recipe "
        "checklist draft report table story memo agenda schedule",
    )
)
"""Words that name a kind of file, so that a phrase with one of them means a file."""

_PRONOUN: Final = re.compile(
    r"(?:it|that|this|there|them|this one|(?:the |it )?(?:whole|entire|full|complete) (?:file|thing|list|text"
    r"|document|lot)|that one|(?:the|that|this) (?:same|last|new) (?:file|document|text|note|list)"
    r"|the (?:result|outcome|changes|(?:new|updated|changed|final) (?:version|file|list|text|one)))",
    re.IGNORECASE,
)
_ATTACHMENT: Final = re.compile(
    r"\b(?:attach(?:ed|ment|ments)?|upload(?:ed|s)?|enclosed)\b|\b(?:document|file|text|pdf) (?:that )?i (?:just )?"
    r"(?:sent|gave|attached|uploaded|shared)",
    re.IGNORECASE,
)
_DETERMINER: Final = re.compile(
    r"^(?:(?:the|my|our|your|his|her|their|this|that|a|an|file|document|called|named|of|contents?|text)\s+)+",
    re.IGNORECASE,
)


def find_mention(phrase: str) -> FileMention | None:
    """Return the reference to a file that a whole phrase is; None if it names nothing like a file."""
    text = phrase.strip(" .,;:!?\"'“”`")
    names = find_file_names(text)
    if names:
        rest = _remove_names(_KIND_BEFORE.sub("", text), names)
        return FileMention(names=tuple(names)) if not rest else None
    if _PRONOUN.fullmatch(text):
        return FileMention(is_pronoun=True)
    if _ATTACHMENT.search(text) and len(text.split()) <= _MAX_WORDS:
        return FileMention(is_attachment=True)
    words = _DETERMINER.sub("", text).strip()
    is_named = text.lower().startswith(("my ", "the ", "our ", "this ", "that ")) or words.lower() in FILE_WORDS
    if not words or len(words.split()) > _MAX_WORDS or not re.fullmatch(r"[\w' -]+", words):
        return None
    if is_named or set(words.lower().replace("-", " ").split()) & FILE_WORDS:
        return FileMention(words=words)
    return None


def mentions_file_kind(words: str) -> bool:
    """Return whether words name a kind of file, such as `list` or `notes`."""
    return bool(set(words.lower().replace("-", " ").split()) & FILE_WORDS)


def is_attachment_phrase(text: str) -> bool:
    """Return whether the text speaks of an attachment."""
    return bool(_ATTACHMENT.search(text))


_MAX_WORDS: Final = 6
_KIND_BEFORE: Final = re.compile(
    r"^(?:the |my |our )?[\w-]{1,20} (?=(?:file|list|document|note)\b,? (?:called |named )?\S+$)", re.IGNORECASE
)
"""A kind before a name, such as `the recipe file` in `the recipe file cake.md`."""
_FILLER: Final = re.compile(
    r"\b(?:the|my|our|this|that|a|an|new|text|file|files|document|documents|called|named|both|and|contents?|of|again"
    r"|workspace|folder|in|list|notes?|as|name|under|with)\b|[\s,.:;&\"'“”`?!]+",
    re.IGNORECASE,
)


def _remove_names(text: str, names: list[str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, " ")
    return _FILLER.sub("", text)
