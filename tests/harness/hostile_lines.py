"""Hostile text for prompts of edition 2, and a check of the fence's rule that shares no code with the fence."""

import re
import unicodedata
from typing import Final

from hypothesis import strategies as st

BREAKS: Final = ("\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
"""Every line break of Unicode and of `str.splitlines`."""

FILLERS: Final = "\u115f\u1160\u17b4\u17b5\u2065\u2800\u3164\uffa0\U0001d159"
"""Characters that show nothing although their category is that of a visible character."""

BEGINNINGS: Final = (
    "[TURN t1] 2026-11-18",
    "[t1.1]",
    "[/t1.1]",
    "[USER]",
    "[",
    "[[S:1]]",
    "<channel:action>{}",
    "</channel:thinking>",
    "<CHANNEL:code>",
    "<channel",
    "HIDDEN — x",
    "HIDDEN",
    "✓ [1] done",
    "✗ 2) no",
    "… 3. next",
    "...4",
    "□ [5]",
    "- ✅ [6] done",
)
"""Beginnings of lines that only the runtime may write."""

INVISIBLE: Final = ("\u200b", "\u2060", "\ufeff", "\u00ad", "\u202e", "\x00", "\x1b", "\ufe0f", "\u0301", "\u3164")
HARMLESS: Final = ("a", " ", "\t", "~", "~~", "|", "12| ", "text", "<", "HID", "✓", "\uff3b", "\uff1c", "", "\u3010")

disguised = st.sampled_from(BEGINNINGS).flatmap(
    lambda line: st.tuples(st.sampled_from(("", *INVISIBLE, "~", " ")), st.integers(0, len(line))).map(
        lambda drawn: line[: drawn[1]] + drawn[0] + line[drawn[1] :]
    )
)
hostile = st.lists(
    disguised | st.sampled_from(BEGINNINGS + BREAKS + INVISIBLE + HARMLESS) | st.text(max_size=6), max_size=14
).map("".join)
"""Texts that are full of imitations of the runtime's lines."""

_PLAN_MARK: Final = re.compile(r"(?:[-*+•]\s+)?(?:[✓✔✅☑✗✘❌✖□☐…]|\.\.\.)\s*\[?\s*[1-9]")
_TAG: Final = re.compile(r"</?channel:", re.IGNORECASE)


def split_at_breaks(text: str) -> list[str]:
    """The lines of the text, for a reader to whom every line break is one."""
    return re.split("[" + "".join(BREAKS) + "]", text)


def is_invisible(char: str) -> bool:
    """Whether the character is a blank, or has no form of its own."""
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Mn", "Me", "Zs") or char in FILLERS


def visible_text(line: str) -> str:
    """The line as it looks: without blanks before it, and without invisible characters in it."""
    kept = "".join(char for char in line if not is_invisible(char) or char == " ")
    return "".join(map(_plain_form, kept)).lstrip(" ")


def is_runtime_line(line: str) -> bool:
    """Whether the line begins as one that only the runtime writes."""
    seen = visible_text(line)
    if seen.startswith(("[", "HIDDEN")) or re.match(r"</?channel", seen, re.IGNORECASE):
        return True
    return bool(_PLAN_MARK.match(seen))


def forged_lines(shown: str) -> list[str]:
    """The lines of shown foreign text that a model could take for lines of the runtime."""
    return [line for line in split_at_breaks(shown) if is_runtime_line(line) or _TAG.search(line)]


def _plain_form(char: str) -> str:
    plain = unicodedata.normalize("NFKC", char)
    return plain if len(plain) == 1 else char
