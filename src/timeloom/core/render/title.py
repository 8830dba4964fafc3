"""Renders the request for a conversation's title and extracts the title from the reply."""

import re
import unicodedata
from typing import Final

from timeloom.core.render.foreign_text.fence import fence
from timeloom.core.stream.surrogates import replace_lone_surrogates

MAX_TITLE_CHARS: Final = 80
"""Maximum length of a title. A longer one is a sentence, and lists of conversations truncate it."""

MAX_WORDS_CHARS: Final = 60
"""Maximum length of a title made from the first words of a message, which are less informative than a title."""

MAX_MESSAGE_CHARS: Final = 2_000
MAX_ANSWER_CHARS: Final = 1_000
"""Maximum length of the message and of the answer in the request. The topic of a conversation appears early."""

MAX_REPLY_CHARS: Final = 4_000
"""How many characters of a reply are searched for a title."""

_THOUGHTS: Final = re.compile(
    r"<channel:thinking>.*?(?:</channel:thinking>|\Z)|<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE
)
_TAG: Final = re.compile(r"</?channel:[^<>]{0,64}>?|</?think>", re.IGNORECASE)
_LABEL: Final = re.compile(r"\A[*_]{0,3}title[*_]{0,3}\s{0,3}:[*_]{0,3}\s*", re.IGNORECASE)
_MARKS: Final = re.compile(r"\A(?:[#>\-\s]|\*\s)+")
_SPACE: Final = re.compile(r"\s+")
_QUOTES: Final = frozenset({'""', "''", "``", "**", "__", "“”", "„“", "„”", "‘’", "‚‘", "«»", "»«", "「」", "『』"})
_JOINERS: Final = "\u200c\u200d"


def title_request_text(message: str, answer: str) -> str:
    """Return the message and the answer for a title request, truncated and fenced because they are data."""
    parts = [f"THE USER'S FIRST MESSAGE\n{_fence_excerpt(message, MAX_MESSAGE_CHARS)}\n"]
    if answer.strip():
        parts.append(f"THE ANSWER\n{_fence_excerpt(answer, MAX_ANSWER_CHARS)}\n")
    return "\n".join([*parts, "THE TITLE\nOne line, at most eight words.\n"])


def clean_title(reply: str) -> str:
    """Return the title in a model's reply; empty if it contains none."""
    text = strip_thinking(reply[:MAX_REPLY_CHARS])
    lines = [line for raw in text.splitlines() if (line := _collapse_spaces(raw).strip("`"))]
    # A line that ends with a colon introduces the title.
    line = next((line for line in lines if not line.endswith(":")), "")
    title = _strip_quotes(_LABEL.sub("", _MARKS.sub("", line)))
    if title.endswith(".") and not title.endswith(".."):
        title = title[:-1].rstrip()
    if len(title) > MAX_TITLE_CHARS or title.startswith("{") or not _has_word(title):
        return ""
    return title


def strip_thinking(reply: str) -> str:
    """Return the reply without thinking and without channel tags."""
    return _TAG.sub("", _THOUGHTS.sub("", reply))


def title_from_words(*texts: str) -> str:
    """Return the first words of the first text that has any; empty if none has."""
    for text in texts:
        words = _collapse_spaces(text[: MAX_WORDS_CHARS * 40])
        if _has_word(words):
            return _truncate(words)
    return ""


def _fence_excerpt(text: str, limit: int) -> str:
    cut = replace_lone_surrogates(text[:limit]).strip()
    return fence(f"{cut}\n…" if len(text) > limit else cut) or "| (nothing)"


def _collapse_spaces(text: str) -> str:
    """Return the text on one line, without invisible and direction-changing characters."""
    kept = (
        char
        for char in _SPACE.sub(" ", replace_lone_surrogates(text))
        if char in _JOINERS or unicodedata.category(char)[0] != "C"
    )
    return "".join(kept).strip()


def _strip_quotes(text: str) -> str:
    while len(text) > 1 and text[0] + text[-1] in _QUOTES:
        text = text[1:-1].strip()
    return text


def _has_word(text: str) -> bool:
    return any(char.isalnum() for char in text)


def _truncate(words: str) -> str:
    if len(words) <= MAX_WORDS_CHARS:
        return words
    head = words[: MAX_WORDS_CHARS - 1]
    # Cut at the end of a word, unless too little remains, as in languages without spaces.
    at = head.rfind(" ")
    return (head[:at] if at >= MAX_WORDS_CHARS // 2 else head).rstrip(" ,;:.-") + "…"
