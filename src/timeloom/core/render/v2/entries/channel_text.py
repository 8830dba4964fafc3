"""Renders the agent's own words as the channels in which it wrote them."""

import re
from collections.abc import Callable
from typing import Final

from timeloom.core.blocks.block import ERASED
from timeloom.core.payload import Text
from timeloom.core.plans.marks import SIGN
from timeloom.core.render.entry_text import MAX_WORDS_CHARS, EntryText, Payloads, load_text
from timeloom.core.render.foreign_text.fence import ESCAPE, one_line
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.render.names import Names
from timeloom.core.render.v2.fence import fence_words
from timeloom.core.tokens import estimate_tokens

MAX_CODE_CHARS: Final = 24_000
"""Maximum length of a program that is shown completely; of a longer one, the beginning is shown."""

CODE_HEAD_CHARS: Final = 6_000
"""How much of a longer program is shown."""


_OWN_MARK: Final = re.compile(rf"(?:\A|(?<=\n)){ESCAPE}(?=(?:{SIGN}) ?(?:\[[1-9][0-9]?\]|[1-9][0-9]?[.)]))")

Escape = Callable[[str], str]
"""Escapes a text for lines of its own."""


def render_words(text: Text, path: str, payloads: Payloads, names: Names, escape: Escape = fence_words) -> str:
    """Return text of a person or the agent, escaped; very long text is truncated and names the path of the rest."""
    full = load_text(text, payloads)
    if full.startswith(ERASED):
        # The erasure mark of the runtime, in a block of any author. A path to read may follow it.
        return one_line(full, MAX_WORDS_CHARS)
    return shorten_words(full, MAX_WORDS_CHARS, names.path(path), escape)


def shorten_words(text: str, chars: int, path: str, escape: Escape = fence_words) -> str:
    """Return the first `chars` characters of the text, escaped, and the call that reads the rest."""
    if len(text) <= chars:
        return escape(text)
    return f"{escape(text[:chars])}\n[READ] {len(text) - chars} more characters: {read_call(path)}"


def fence_notes(text: str) -> str:
    """Return the agent's notes, escaped except for its marks of plan steps: the agent writes them in this form."""
    return _OWN_MARK.sub("", fence_words(text))


def read_call(path: str) -> str:
    """Return the call that reads the path."""
    return f"react.read({json_line([one_line(path, 1_200)])})"


def channel(name: str, text: str) -> str:
    """Return the channel with that escaped text on lines of its own."""
    body = text.removesuffix("\n")
    return f"<channel:{name}>\n{body}\n</channel:{name}>"


def short_channel(name: str, text: str) -> str:
    """Return the channel with that escaped text; one line stands between its tags, which saves two line breaks."""
    text = text.strip()
    return f"<channel:{name}>{text}</channel:{name}>" if len(text.splitlines()) == 1 else channel(name, text)


def action(fields: str) -> str:
    """Return the action channel with that JSON object, which must be one escaped line."""
    return f"<channel:action>{fields}</channel:action>"


def text_without_gap(*parts: str) -> EntryText:
    """Return the text of the non-empty parts without the blank line after it: the next entry follows directly."""
    text = "\n".join(part for part in parts if part) + "\n"
    return EntryText(text, tokens=estimate_tokens(text))
