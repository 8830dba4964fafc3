"""Checks that the names in a path are safe on every file system.

A name is checked in every form that it can take before it reaches a disk: as written, percent-decoded and
NFKC-normalised, repeatedly until nothing changes. All forms must be safe; the name is kept as written.
"""

import re
import unicodedata

from timeloom.core.paths.errors import PathError, quote_prefix

MAX_NAME_BYTES = 255
"""Longest name in UTF-8. File systems refuse longer names; a smaller limit refuses names of real files."""

MAX_RELATIVE_BYTES = 1024
"""Longest relative part of a path in UTF-8. macOS refuses more; a smaller limit refuses deep source trees."""

MAX_DECODINGS = 8
"""Decoding passes before a name is refused. More passes only cost time; with 1, `%252e` would pass."""

_FRACTION_SLASH = "\u2044"
_SEPARATORS = re.compile(
    "[/\\\\\0"
    f"{_FRACTION_SLASH}"
    "\u2215\u2571\u27cb\u29f8\uff0f\U0001f67c"  # look like a solidus
    "\u2216\u2572\u27cd\u29f5\u29f9\ufe68\uff3c\U0001f67d"  # look like a backslash
    "]"
)
_DRIVE = re.compile(r"[A-Za-z]:")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[1-9]|lpt[1-9]|conin\$|conout\$) *(?:[.:]|$)", re.IGNORECASE)
_ASCII_CONTROL = re.compile("[\0-\x1f\x7f]")
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")
# Flag of a subdivision (such as Scotland): a black flag, the code in tag characters, an end tag.
_FLAG = re.compile("(\U0001f3f4)[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f")
_BLANK = "\u2800"
_ONLY_INVISIBLE = re.compile(
    rf"[\s.{_BLANK}\u180b-\u180f\u200c\u200d\u2065\ufe00-\ufe0f\ufff0-\ufff8\U0001d159\U000e0000-\U000e0fff]*"
)
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_UTF16_ESCAPE = re.compile(r"%[uU]([0-9A-Fa-f]{4})")


def check_relative(text: str) -> None:
    """Raise unless the text consists of safe names joined by `/` and is short enough for file systems."""
    if len(text) > MAX_RELATIVE_BYTES or _utf8_bytes(text) > MAX_RELATIVE_BYTES:
        raise PathError("path_too_long", f"the relative part of a path has at most {MAX_RELATIVE_BYTES} bytes in UTF-8")
    check_names(text)


def check_names(text: str) -> None:
    """Raise unless the text consists of safe names joined by `/`; the caller limits its length."""
    if text.startswith("/"):
        raise PathError("path_escapes_root", "the path is absolute; expected one relative to its folder")
    for name in text.split("/"):
        check_name(name)


def check_name(name: str) -> None:
    """Raise unless the text is one safe name in every form that it can be decoded to."""
    if not name:
        raise PathError("path_malformed", "a name in the path is empty; expected names joined by single '/'")
    if len(name) > MAX_NAME_BYTES or _utf8_bytes(name) > MAX_NAME_BYTES:
        raise PathError(
            "path_too_long", f"a name has at most {MAX_NAME_BYTES} bytes in UTF-8, got {quote_prefix(name)}"
        )
    _check_form(name)
    if name.isascii() and "%" not in name:
        return
    form = name
    for _ in range(MAX_DECODINGS):
        decoded = _percent_decode(form)
        _check_form(decoded)
        # NFKC spells "½" with a fraction slash that is not in the input; one in the input was refused above.
        plain = unicodedata.normalize("NFKC", decoded).replace(_FRACTION_SLASH, "_")
        _check_form(plain)
        if plain == form:
            return
        form = plain
    raise PathError("path_escapes_root", f"a name is percent-encoded more than {MAX_DECODINGS} times over")


def _utf8_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _check_form(form: str) -> None:
    if _SEPARATORS.search(form):
        raise PathError(
            "path_escapes_root", "a name contains a separator, a backslash or NUL, or a form of one of these"
        )
    if not form.replace(".", "").strip():
        raise PathError("path_escapes_root", "a name is only dots or spaces, or decodes to that; expected a file name")
    if _DRIVE.match(form):
        raise PathError("path_escapes_root", "a name starts with a drive letter; expected a relative path")
    if form[-1] in (".", _BLANK) or form[-1].isspace():
        raise PathError("path_name_unsafe", f"a name ends with a dot or a space: {quote_prefix(form)}")
    if _DEVICE.match(form):
        raise PathError("path_name_unsafe", f"a name is that of a device on some systems: {quote_prefix(form)}")
    if has_invisible_characters(form):
        raise PathError("path_name_unsafe", f"a name contains a control or invisible character: {quote_prefix(form)}")


def has_invisible_characters(form: str) -> bool:
    """Return whether the text has a control, invisible or direction-changing character."""
    if form.isascii():
        return _ASCII_CONTROL.search(form) is not None
    if _ONLY_INVISIBLE.fullmatch(form):
        return True
    form = _FLAG.sub(r"\1", form)
    for before, char, after in zip(" " + form, form, form[1:] + " ", strict=False):
        # Persian and Indic words and emoji need joiners between letters; next to ASCII a joiner only hides text.
        if char in _JOINERS and not before.isascii() and not after.isascii():
            continue
        if char in _FILLERS or unicodedata.category(char) in _INVISIBLE_CATEGORIES:
            return True
    return False


def _percent_decode(form: str) -> str:
    return _ESCAPES.sub(_decode_escapes, _UTF16_ESCAPE.sub(lambda found: chr(int(found[1], 16)), form))


def _decode_escapes(found: re.Match[str]) -> str:
    raw = bytes.fromhex(found[0].replace("%", ""))
    if any(_is_overlong(raw, at) for at in range(len(raw))):
        raise PathError("path_escapes_root", "a name contains an overlong UTF-8 escape")
    # Invalid bytes are dropped, not replaced: a lenient decoder drops them too, and `%ff..%ff` becomes `..`.
    return raw.decode("utf-8", "ignore")


def _is_overlong(raw: bytes, at: int) -> bool:
    """Return whether an unchecked decoder would read a multi-byte sequence here as an ASCII character."""
    width = 8 - (~raw[at] & 0xFF).bit_length()
    tail = raw[at + 1 : at + width]
    if not 2 <= width <= 6 or len(tail) < width - 1:
        return False
    code = raw[at] & (0x7F >> width)
    for byte in tail:
        code = code << 6 | byte & 0x3F
    return code < 0x80
