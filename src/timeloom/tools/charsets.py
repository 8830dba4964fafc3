"""Decodes text of external origin in its declared charset, without replacement characters."""

import re
from encodings.aliases import aliases
from typing import Final

_MAX_NAME_CHARS: Final = 40
"""Longest charset name that is looked up."""

BYTE_ORDER_MARKS: Final = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
"""Bytes with which a text in Unicode may begin, and the codec that each of them stands for."""

_KNOWN: Final = frozenset(
    {
        "ascii",
        "big5",
        "cp932",
        "cp949",
        "euc_jp",
        "euc_kr",
        "gb18030",
        "gb2312",
        "gbk",
        "koi8_r",
        "koi8_u",
        "latin_1",
        "mac_roman",
        "shift_jis",
        "utf_8",
        "utf_16",
        "utf_16_be",
        "utf_16_le",
        *(f"cp{number}" for number in (866, 874, *range(1250, 1259))),
        *(f"iso8859_{number}" for number in (*range(2, 12), *range(13, 17))),
    }
)
"""Python codec names of supported charsets. Other codecs are not charsets, or are slow on hostile input."""


def decode_text(data: bytes, charset: str = "") -> str | None:
    """Return the text decoded in that charset or in UTF-8; None if decoding fails or the charset is unsupported.

    A byte order mark takes precedence over the declared charset.
    """
    codec = next((codec for mark, codec in BYTE_ORDER_MARKS if data.startswith(mark)), "") or find_codec(
        charset or "utf-8"
    )
    if not codec:
        return None
    try:
        text = data.decode(codec)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def find_codec(charset: str) -> str:
    """Return the Python codec of a charset; empty if it is unsupported."""
    normalized = re.sub(r"[^a-z0-9]+", "_", charset[:_MAX_NAME_CHARS].lower()).strip("_")
    # Not `codecs.lookup`, because it caches every name that it was ever asked for.
    name = aliases.get(normalized, normalized)
    return name if name in _KNOWN else ""
