"""Removes the markup with which search services highlight words."""

import re
from html import unescape
from typing import Final

_TAG: Final = re.compile(r"</?(?:strong|b|em|mark|i|span)\b[^<>]{0,100}>", re.IGNORECASE)


def strip_markup(text: str) -> str:
    """Return the text without highlighting and with its entities decoded."""
    return unescape(_TAG.sub("", text))
