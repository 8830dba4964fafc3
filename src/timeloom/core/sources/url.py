"""Normalises web addresses: spellings that the WHATWG URL parser and RFC 3986 consider equal get one merge key."""

import re
from collections.abc import Callable
from typing import Final

import msgspec

from timeloom.core.sources.host import canonical_host

TRACKING_PREFIX: Final = "utm_"
"""Query parameters with this prefix are dropped; case is ignored."""

TRACKING_NAMES: Final = frozenset(
    {
        "_ga", "_gl", "_hsenc", "_hsmi", "_openstat", "dclid", "epik", "fbclid", "gad_campaignid", "gad_source",
        "gbraid", "gclid", "gclsrc", "hsctatracking", "igshid", "irclickid", "li_fat_id", "mc_cid", "mc_eid",
        "mkt_tok", "msclkid", "oly_anon_id", "oly_enc_id", "rb_clickid", "rdt_cid", "s_kwcid", "sccid", "srsltid",
        "ttclid", "twclid", "vero_conv", "vero_id", "wbraid", "wickedid", "yclid", "ysclid",
    }
)  # fmt: skip
"""Other query parameters to drop, ignoring case: click and campaign ids that do not change the response. A name that
some server gives a meaning (`ref`, `source`, `id`) must not be added: it would merge different pages."""

_DEFAULT_PORTS: Final = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}
_ENDS: Final = "".join(map(chr, range(0x21)))
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*+):")
_AFTER_AUTHORITY: Final = re.compile(r"[/\\?#]")
_PORT: Final = re.compile(r":0*([0-9]{0,5})")
_DIRECTIVE: Final = re.compile(r":~(?=:)")
_DOT: Final = re.compile(r"(?:\.|%2[eE])(\.|%2[eE])?")
_ESCAPES: Final = re.compile(r"(%(?![0-9A-Fa-f]{2})[0-9A-Fa-f]?)?%([0-9A-Fa-f]{2})")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class UrlParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a web address in the spelling of a request; `query` keeps all parameters and its `?`."""

    scheme: str
    has_credentials: bool
    host: str
    port: str
    """The port with its `:`; empty for the scheme's default port."""
    path: str
    query: str


def split_url(text: str) -> UrlParts | None:
    """Return the parts of a web address as browsers read it; None if it is none."""
    found = _split_scheme(text.strip(_ENDS))
    if found is None or found[0] not in _DEFAULT_PORTS:
        return None
    scheme, rest = found
    authority, rest = _split_authority(rest.lstrip("/\\"))
    host_text, port_text = _split_port(authority.rpartition("@")[2])
    host, port = canonical_host(host_text), _normalize_port(scheme, port_text)
    if host is None or port is None:
        return None
    path, mark, query = rest.partition("#")[0].partition("?")
    return UrlParts(
        scheme=scheme,
        has_credentials="@" in authority,
        host=host,
        port=port,
        path=_normalize_path(path),
        query=f"?{_in_query(query)}" if mark else "",
    )


def normalize_url(text: str) -> str:
    """Return the merge key of an address: equal for spellings of one web address, else the text without outer blanks.

    Never raises. The key of a key is the key itself. For schemes other than http, https, ws, wss and ftp only the
    scheme's case is normalised.
    """
    stripped = text.strip(_ENDS)
    found = _split_scheme(stripped)
    if found is None:
        return stripped
    scheme, rest = found
    if scheme in _DEFAULT_PORTS:
        return _normalize_web_address(scheme, rest) or stripped
    if len(scheme) == 1 or stripped[: len(scheme) + 1].lower() != f"{scheme}:":
        return stripped  # a drive letter, or a scheme with line breaks in it
    return scheme + stripped[len(scheme) :]


def host_of(text: str) -> str:
    """Return the host of a web address in its ASCII spelling; empty if there is none."""
    scheme, _, rest = normalize_url(text).partition("://")
    authority, _ = _split_authority(rest)
    host, _ = _split_port(authority.rpartition("@")[2])
    return host if scheme in _DEFAULT_PORTS and canonical_host(host) == host else ""


def is_unicode(text: str) -> bool:
    """Return whether the text can be encoded as UTF-8, which a lone surrogate prevents."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _split_scheme(stripped: str) -> tuple[str, str] | None:
    """Return the scheme in lower case and the text after its `:`, without line breaks; None if there is no scheme."""
    if not is_unicode(stripped):
        return None
    seen = stripped.replace("\t", "").replace("\n", "").replace("\r", "")
    found = _SCHEME.match(seen)
    return (found[1].lower(), seen[found.end() :]) if found else None


def _normalize_web_address(scheme: str, rest: str) -> str | None:
    authority, rest = _split_authority(rest.lstrip("/\\"))
    credentials, _, host_and_port = authority.rpartition("@")
    host_text, port_text = _split_port(host_and_port)
    host, port = canonical_host(host_text), _normalize_port(scheme, port_text)
    if host is None or port is None:
        return None
    before_fragment, _, fragment = rest.partition("#")
    path, mark, query = before_fragment.partition("?")
    return "".join(
        (
            f"{scheme}://{_normalize_userinfo(credentials)}{host}{port}{_normalize_path(path)}",
            _normalize_query(query) if mark else "",
            _normalize_fragment(fragment),
        )
    )


def _split_authority(text: str) -> tuple[str, str]:
    end = next((found.start() for found in _AFTER_AUTHORITY.finditer(text)), len(text))
    return text[:end], text[end:]


def _split_port(text: str) -> tuple[str, str]:
    """Return the host, and the rest from the first `:` outside brackets on."""
    start = text.find("]") + 1 if text.startswith("[") else 0
    colon = text.find(":", start)
    return (text, "") if colon < 0 else (text[:colon], text[colon:])


def _normalize_port(scheme: str, text: str) -> str | None:
    """Return the port with its `:`; empty for the scheme's default port, None if it is not a port."""
    if not text:
        return ""
    found = _PORT.fullmatch(text)
    if found is None or int(found[1] or "0") > 65535:
        return None
    if text == ":" or found[1] == _DEFAULT_PORTS[scheme]:
        return ""
    return f":{found[1] or '0'}"


def _normalize_userinfo(text: str) -> str:
    name, _, password = text.partition(":")
    if not name and not password:
        return ""
    return _in_userinfo(name) + (f":{_in_userinfo(password)}" if password else "") + "@"


def _normalize_path(text: str) -> str:
    """Return the path without dot segments; empty segments and a final slash stay, since servers distinguish them."""
    segments = text.replace("\\", "/").split("/")[1:]
    kept: list[str] = []
    ends_open = True
    for segment in segments:
        dots = _DOT.fullmatch(segment)
        ends_open = dots is not None
        if dots is None:
            kept.append(segment)
        elif dots[1] is not None and kept:
            kept.pop()
    if ends_open:
        kept.append("")
    return _in_path("/" + "/".join(kept))


def _normalize_query(text: str) -> str:
    """Return the query with its `?` and without tracking parameters; empty if nothing else remains."""
    pairs = _in_query(text).split("&")
    kept = [pair for pair in pairs if not _is_tracking(pair)]
    return "?" + "&".join(kept) if kept else ""


def _is_tracking(pair: str) -> bool:
    name = pair.partition("=")[0].lower()
    return name.startswith(TRACKING_PREFIX) or name in TRACKING_NAMES


def _normalize_fragment(text: str) -> str:
    """Return the fragment if it is a route (`#!…`, `#/…`), which names a page; empty if it names a place in a page."""
    if not text.startswith(("!", "/")):
        return ""
    route = _in_fragment(text.partition(":~:")[0])
    # An encoded `~` belongs to the route: decoded between two colons, it would begin a text directive.
    return "#" + _DIRECTIVE.sub(":%7E", route)


def _make_encoder(encoded: str) -> Callable[[str], str]:
    """Return a function that percent-encodes these characters, controls and non-ASCII, and decodes unreserved ones."""
    table = tuple(
        chr(byte) if 0x20 < byte < 0x7F and chr(byte) not in encoded else f"%{byte:02X}" for byte in range(256)
    )

    def encode(text: str) -> str:
        return "".join(map(table.__getitem__, _ESCAPES.sub(_normalize_escape, text).encode()))

    return encode


def _normalize_escape(escape: re.Match[str]) -> str:
    stray, digits = escape[1], escape[2].upper()
    char = chr(int(digits, 16))
    if stray is None:
        return char if char in _UNRESERVED else f"%{digits}"
    # Decoding it after a lone `%` would create a new escape: `%4%31` is not `%41`.
    return f"{stray}%{digits}"


_in_fragment: Final = _make_encoder('"<>`')
_in_query: Final = _make_encoder("\"<>'")
_in_path: Final = _make_encoder('"<>`?^{}')
_in_userinfo: Final = _make_encoder('"<>`?^{}/:;=@[\\]|')
