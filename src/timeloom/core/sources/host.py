"""Normalises the host of a web address (domain, IPv4 or IPv6) to ASCII as the WHATWG URL parser does."""

import re
import unicodedata
from itertools import groupby
from typing import Final

import idna

MAX_IDNA_CHARS: Final = 1024
"""Longest non-ASCII host that is converted. DNS allows 253 characters; Punycode takes time quadratic in the length."""

_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f#/:<>?@\[\\\]^|%]")
_NUMBER: Final = re.compile(r"0[xX](?P<hex>[0-9a-fA-F]*)|0(?P<octal>[0-7]+)|(?P<decimal>0|[1-9][0-9]*)")
_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_PIECE: Final = re.compile(r"[0-9A-Fa-f]{1,4}")
_OCTET: Final = re.compile(r"0|[1-9][0-9]{0,2}")
_JOINERS: Final = "\u200c\u200d"
_RIGHT_TO_LEFT: Final = frozenset({"R", "AL", "AN"})


def canonical_host(text: str) -> str | None:
    """Return the canonical ASCII spelling of the host; None if the WHATWG parser refuses it."""
    if text.startswith("["):
        return _parse_ipv6(text[1:-1]) if text.endswith("]") else None
    domain = _to_ascii_domain(_percent_decode(text))
    if not domain or _FORBIDDEN.search(domain):
        return None
    return _parse_ipv4(domain) if _ends_in_number(domain) else domain


def _percent_decode(text: str) -> str:
    if "%" not in text:
        return text
    raw = _ESCAPE.sub(lambda escape: bytes.fromhex(escape[1].decode()), text.encode())
    return raw.decode("utf-8", "replace")


def _to_ascii_domain(domain: str) -> str | None:
    if domain.isascii():
        return domain.lower()
    if len(domain) > MAX_IDNA_CHARS:
        return None
    try:
        labels = idna.uts46_remap(domain, std3_rules=False).split(".")
        return ".".join(_to_ascii_label(_to_unicode_label(label)) for label in labels)
    except ValueError:  # idna's and the codec's errors, which are all UnicodeError, and a character they do not know
        return None


def _to_unicode_label(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    decoded = label[4:].encode("ascii").decode("punycode")
    if _to_punycode(decoded) != label or idna.uts46_remap(decoded, std3_rules=False) != decoded:
        raise ValueError("an xn-- label that no Unicode label is written as")
    return decoded


def _to_ascii_label(label: str) -> str:
    if label.isascii():
        return label
    idna.check_initial_combiner(label)
    if not all(idna.valid_contextj(label, at) for at, char in enumerate(label) if char in _JOINERS):
        raise ValueError("a joiner where no script has one")
    if any(unicodedata.bidirectional(char) in _RIGHT_TO_LEFT for char in label):
        idna.check_bidi(label)
    return _to_punycode(label)


def _to_punycode(label: str) -> str:
    return label if label.isascii() else "xn--" + label.encode("punycode").decode("ascii")


def _ends_in_number(domain: str) -> bool:
    labels = domain.removesuffix(".").rsplit(".", 1)
    return labels[-1].isdecimal() or _parse_number(labels[-1]) is not None


def _parse_ipv4(domain: str) -> str | None:
    parts = domain.removesuffix(".").split(".", 4)
    numbers = [number for part in parts if (number := _parse_number(part)) is not None]
    if len(numbers) < len(parts) or len(parts) > 4:
        return None
    *leading, last = numbers
    if any(number > 255 for number in leading) or last >= 256 ** (4 - len(leading)):
        return None
    address = last + sum(number << 8 * (3 - at) for at, number in enumerate(leading))
    return ".".join(str(byte) for byte in address.to_bytes(4, "big"))


def _parse_number(text: str) -> int | None:
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    digits = (found[found.lastgroup or "hex"] or "").lstrip("0") or "0"
    if len(digits) > 16:
        return 1 << 32  # larger than any address, and slow to convert
    return int(digits, {"hex": 16, "octal": 8, "decimal": 10}[found.lastgroup or "hex"])


def _parse_ipv6(text: str) -> str | None:
    if len(text) > 45 or text.count("::") > 1:
        return None
    head, gap, tail = text.partition("::")
    before, after = _parse_pieces(head, embeds=not gap), _parse_pieces(tail, embeds=True)
    if before is None or after is None:
        return None
    missing = 8 - len(before) - len(after)
    if missing < 1 if gap else missing != 0:
        return None
    return f"[{_compress([*before, *[0] * missing, *after])}]"


def _parse_pieces(text: str, *, embeds: bool) -> list[int] | None:
    """Return the 16-bit pieces of one side of `::`; an IPv4 address may end the whole address."""
    if not text:
        return []
    *leading, last = text.split(":")
    octets = last.split(".") if embeds else [last]
    if len(octets) == 4 and all(_OCTET.fullmatch(octet) and int(octet) < 256 for octet in octets):
        a, b, c, d = map(int, octets)
        leading += [f"{a << 8 | b:x}", f"{c << 8 | d:x}"]
    else:
        leading.append(last)
    return [int(piece, 16) for piece in leading] if all(map(_PIECE.fullmatch, leading)) else None


def _compress(pieces: list[int]) -> str:
    text = [f"{piece:x}" for piece in pieces]
    runs = [[at for at, _ in run] for zero, run in groupby(enumerate(pieces), key=_is_zero) if zero]
    longest = max(runs, key=len) if runs else []
    if len(longest) < 2:
        return ":".join(text)
    return f"{':'.join(text[: longest[0]])}::{':'.join(text[longest[-1] + 1 :])}"


def _is_zero(place: tuple[int, int]) -> bool:
    return place[1] == 0
