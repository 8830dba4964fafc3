"""The merge key of an address, judged by a WHATWG parser."""

import re
from itertools import combinations

import pytest
from ada_url import URL
from hypothesis import example, given
from hypothesis import strategies as st

from tests.harness.repository import ROOT
from timeloom.core.sources import TRACKING_NAMES, host_of, normalize_url, split_url

SAME = [
    # case and blanks
    ("HTTP://Example.COM/Path", "http://example.com/Path"),
    ("  \x00http://a/b\n ", "http://a/b"),
    ("ht\ntp://a/\tb\r", "http://a/b"),
    # ports and empty path
    ("http://a:80", "http://a/"),
    ("https://a:443/", "https://a"),
    ("ftp://a:21/", "ftp://a/"),
    ("ws://a:80/", "ws://a"),
    ("wss://a:0443/", "wss://a"),
    ("http://a:/", "http://a/"),
    ("http://a:00080/", "http://a/"),
    # slashes and dot segments
    ("http:\\\\a\\b", "http://a/b"),
    ("http:a", "http:////a"),
    ("http://a/b/../c/./d", "http://a/c/d"),
    ("http://a/b/..", "http://a/"),
    ("http://a/b/.", "http://a/b/"),
    ("http://a/../../b", "http://a/b"),
    ("http://a/x/%2E%2e/%2e/b", "http://a/b"),
    ("http://a/x/.%2E/b", "http://a/b"),
    # percent-encoding
    ("http://a/%7Euser/%41", "http://a/~user/A"),
    ("http://a/%c3%a9", "http://a/é"),
    ("http://a/b c", "http://a/b%20c"),
    ("http://a/{x}", "http://a/%7Bx%7D"),
    ("http://a/?q='x'", "http://a/?q=%27x%27"),
    ("http://a/?%71=%61", "http://a/?q=a"),
    # hosts
    ("http://bücher.example/", "http://xn--bcher-kva.example/"),
    ("http://BÜCHER。example/", "http://bu\u0308cher.example/"),
    ("http://b%C3%BCcher.example/", "http://bücher.example/"),
    ("http://bücher.xn--bcher-kva/", "http://xn--bcher-kva.bücher/"),
    ("http://💩.la/", "http://xn--ls8h.la/"),
    ("http://ex\u00adample.com/é", "http://example.com/%C3%A9"),
    ("http://0x7f.1/", "http://127.0.0.1/"),
    ("http://0177.0.0.01./", "http://127.0.0.1/"),
    ("http://2130706433", "http://127.0.0.1"),
    ("http://１.2.3.4/", "http://1.2.3.4/"),
    ("http://0x/", "http://0.0.0.0/"),
    ("http://[2001:DB8:0:0:0:0:0:1]/", "http://[2001:db8::1]/"),
    ("http://[::FFFF:1.2.3.4]/", "http://[::ffff:102:304]/"),
    ("http://[0:0:1:0:0:0:0:0]/", "http://[0:0:1::]/"),
    ("http://[1:0:2:3:4:5:6:7]:80/", "http://[1:0000:2:3:4:5:6:7]/"),
    # credentials
    ("http://@a/", "http://a/"),
    ("http://:@a/", "http://a/"),
    ("http://u:@a/", "http://u@a/"),
    ("http://u@v:p:q@a/", "http://u%40v:p%3Aq@a/"),
    # tracking and fragments
    ("http://a/?utm_source=x&b=1&UTM_Medium=y&fbclid=z", "http://a/?b=1"),
    ("http://a/?gclid=1", "http://a/"),
    ("http://a/?%75tm_id=1", "http://a/"),
    ("http://a/#part", "http://a/"),
    ("http://a/#:~:text=word", "http://a/"),
    ("http://a/#!page:~:text=word", "http://a/#!page"),
    ("http://a/#/r:~:%7E:b", "http://a/#/r"),
    ("http://a/#/r:%7e:b", "http://a/#/r:%7E:b"),
    ("http://a/#/%7er:%7e", "http://a/#/~r:~"),
    ("MailTo:x@y", "mailto:x@y"),
]

DIFFERENT = [
    ("http://10.0.0.4/", "http://10.0.0.8/"),
    ("http://a/", "http://a:8080/"),
    ("http://a:80/", "https://a:80/"),
    ("http://a/", "http://a:443/"),
    ("http://a/", "https://a/"),
    ("http://a/", "http://a:0/"),
    ("http://a/?a=1&b=2", "http://a/?b=2&a=1"),
    ("http://a/?a=1&a=2", "http://a/?a=2"),
    ("http://a/?a=1&a=1", "http://a/?a=1"),
    ("http://a/?a", "http://a/?a="),
    ("http://a/?a=1", "http://a/?a=1&"),
    ("http://a/", "http://a/?"),
    ("http://a/b", "http://a/b/"),
    ("http://a/b", "http://a/B"),
    ("http://a/b/c", "http://a/b//c"),
    ("http://a.com/", "http://www.a.com/"),
    ("http://a.com/", "http://a.com./"),
    ("http://a/b%2Fc", "http://a/b/c"),
    ("http://a/?q=b+c", "http://a/?q=b%20c"),
    ("http://a/?q=b%26c", "http://a/?q=b&c"),
    ("http://a/b%3Fc", "http://a/b?c"),
    ("http://a/b;c", "http://a/b%3Bc"),
    ("http://a/%4%31", "http://a/%41"),
    ("http://a/%%341", "http://a/%41"),
    ("http://a/%zz", "http://a/%25zz"),
    ("http://a/index.html", "http://a/"),
    ("http://faß.de/", "http://fass.de/"),
    ("http://u@a/", "http://a/"),
    ("http://u:p@a/", "http://u@a/"),
    ("http://a/#!x", "http://a/"),
    ("http://a/#!x", "http://a/#!y"),
    ("http://a/#/x", "http://a/#/y"),
    ("http://a/#/r:%7E:b", "http://a/#/r"),
    ("http://a/#/r:%7E:b", "http://a/#/r:~:b"),
    ("http://a/#/r:%7E:b", "http://a/#/r:%7E:c"),
    ("http://a/#/r:%7E:%7E:b", "http://a/#/r:%7E:"),
    ("http://a/?ref=x", "http://a/"),
    ("http://a/?utmx=1", "http://a/"),
    ("http://[::1]/", "http://[::2]/"),
    ("http://a/\ud800", "http://a/\ud801"),
    ("http://a/\ud800", "http://a/\ufffd"),
    ("mailto:x@y", "mailto:X@y"),
    ("data:,a", "data:,%61"),
    ("C:\\Work\\a.txt", "c:\\Work\\a.txt"),
    ("notes/a.txt", "notes/A.txt"),
    ("file:///a", "file:///b"),
    ("example.com", "http://example.com"),
]

REFUSED = [
    *(
        "",
        "http:",
        "http://",
        "http://@/",
        "http://:80/",
        "http://a:b/",
        "http://a:65536/",
        "http://a:1:2/",
        "http://a b/",
    ),
    *("http://[::1/", "http://[]/", "http://[::1]x/", "http://[1::2::3]/", "http://[12345::]/", "http://[1:2]/"),
    *(
        "http://[::1.2.3.256]/",
        "http://[::1.2.3]/",
        "http://[1.2.3.4::]/",
        "http://[1:2:3:4:5:6:7::8]/",
        "http://[::01.2.3.4]",
    ),
    *(
        "http://256.0.0.1/",
        "http://1.2.3.4.5/",
        "http://1.2.3.08/",
        "http://09/",
        "http://a.0x4/",
        "http://4294967296/",
    ),
    *(
        "http://" + "9" * 9_000,
        "http://1..2/",
        "http://a%/",
        "http://a%zz/",
        "http://a%00/",
        "http://a%FF/",
        "http://a|b/",
    ),
    *(
        "http://\u200d.de/",
        "http://\u0301a.de/",
        "http://אa.de/",
        "http://\ufdd0/",
        "http://é.xn--a/",
        "http://é.xn--a-/",
    ),
    *(
        "http://é.xn---9a/",
        "http://é.xn--" + "9" * 30,
        "http://xn--é/",
        "http://" + "é" * 2_000,
        "//a/b",
        "\ud800",
        "1http://a/",
    ),
    *("foo\n:x", "http//a", "http://\u00ad/", "http://é%2F/"),
]

# Alphabets in which close spellings of one address, and close addresses, are common.
SCHEMES = st.sampled_from(["http://", "https://", "HTTP:", "ws://", "wss:\\\\", "ftp://"])
LOGINS = st.sampled_from(["", "", "", "u@", "u:p@", ":p@", "@", "%75:@", "a@b@"])
HOST_WORDS = (
    "a.de A.de a.de. www.a.de %61.de é.de xn--9ca.de e\u0301.de ß.de ss.de 1.2.3.4 1.2.772 0x1.2.3.4 1.2.3.5 [::1] "
    "[0:0:0:0:0:0:0:1] [::2] [::0.0.0.1] א.de 1.2.3.04 a。de xn--a.de"
)
HOSTS = st.sampled_from(HOST_WORDS.split())
PORTS = st.sampled_from(["", "", ":", ":80", ":443", ":21", ":8080", ":080", ":x"])
TAIL_CHARS = "/\\.%?#&=+aAé ;:@!'\"<>[]^`{|}~$,\t\x7f"
TAIL_WORDS = ".. /./ %2e %2E %2f %2F %41 %61 %7e %C3%A9 %4 %zz %%34 utm_id=1 gclid & #! #/ :~: :%7E:"
PIECES = st.sampled_from([*TAIL_CHARS, *TAIL_WORDS.split()])
TAILS = st.lists(PIECES, max_size=8).map("".join)
ADDRESSES = st.builds(lambda *parts: "".join(parts), SCHEMES, LOGINS, HOSTS, PORTS, TAILS)
TEXTS = st.one_of(ADDRESSES, st.text(st.characters(codec=None), max_size=40), ADDRESSES.map(lambda text: f" {text}\n"))


def parsed(text: str) -> URL | None:
    try:
        return URL(text)
    except ValueError:
        return None


def address(url: URL) -> tuple[str, ...]:
    """Return the parser's result without the parts that the key drops on purpose."""
    parts = (url.protocol, url.username, url.password, url.host, url.pathname, searched(url.search), routed(url.hash))
    return tuple(decoded(part) for part in parts)


def searched(search: str) -> str:
    pairs = [pair for pair in decoded(search).removeprefix("?").split("&") if not tracked(pair.split("=")[0].lower())]
    return "&".join(pairs)


def tracked(name: str) -> bool:
    return name.startswith("utm_") or name in TRACKING_NAMES


def routed(fragment: str) -> str:
    return fragment.partition(":~:")[0] if fragment[1:2] in ("!", "/") else ""


def decoded(text: str) -> str:
    """RFC 3986, 6.2.2: unreserved characters stand for themselves, hex digits are capitals."""
    return re.sub(r"%[0-9A-Fa-f]{2}", lambda found: unreserved(found[0]), text)


def unreserved(escape: str) -> str:
    char = chr(int(escape[1:], 16))
    return char if re.fullmatch(r"[A-Za-z0-9._~-]", char) else escape.upper()


@pytest.mark.parametrize(("one", "other"), SAME)
def test_spellings_of_one_address_have_one_key(one: str, other: str) -> None:
    assert normalize_url(one) == normalize_url(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_addresses_that_differ_have_different_keys(one: str, other: str) -> None:
    assert normalize_url(one) != normalize_url(other)


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_address_is_its_own_key(text: str) -> None:
    assert normalize_url(f" {text} ") == text.strip()


def test_the_key_of_an_address_is_the_address_in_its_normal_form() -> None:
    text = "HTTP://U:P@Bücher.Example:8080/a/../%7eb c?x=1&utm_source=y&z='#part"
    assert normalize_url(text) == "http://U:P@xn--bcher-kva.example:8080/~b%20c?x=1&z=%27"


def test_the_documentation_names_every_tracking_parameter() -> None:
    page = ROOT / "docs" / "reference" / "sources.md"
    assert set(re.findall(r"\w+", page.read_text(encoding="utf-8"))) >= TRACKING_NAMES


@pytest.mark.parametrize("name", sorted(TRACKING_NAMES))
def test_every_name_of_the_list_is_dropped_wherever_it_stands(name: str) -> None:
    assert normalize_url(f"https://a/?{name}=1&b=2&{name.upper()}") == "https://a/?b=2"


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("https://U@WWW.Bücher.de:8080/x", "www.xn--bcher-kva.de"),
        ("http://[::0:1]:81/", "[::1]"),
        ("http://a", "a"),
        ("http://a b/", ""),
        ("http://A B/", ""),
        ("mailto:x@y", ""),
        ("s3://bucket/key", ""),
        ("turn_1/files/a.txt", ""),
    ],
)
def test_the_host_of_an_address_is_ascii_and_of_anything_else_empty(text: str, host: str) -> None:
    assert host_of(text) == host


@given(TEXTS)
@example("http://a/#!:%7e:x")
@example("http://a/#!:%7e:%7e:~x")
@example("http://a/%%32%65")
@example("http://a/%2%65%2%65/b")
@example("\ud800http://a")
def test_a_key_is_its_own_key(text: str) -> None:
    key = normalize_url(text)
    assert normalize_url(key) == key


@given(ADDRESSES)
def test_the_key_of_what_the_parser_takes_is_an_address_that_it_leaves_alone(text: str) -> None:
    url = parsed(text)
    if url is None:
        assert normalize_url(text) == text.strip("".join(map(chr, range(33))))
    else:
        key = normalize_url(text)
        assert URL(key).href == key
        assert host_of(text) == url.hostname


@given(ADDRESSES)
def test_an_address_and_the_parsers_spelling_of_it_have_one_key(text: str) -> None:
    url = parsed(text)
    assert url is None or normalize_url(url.href) == normalize_url(text)


@given(st.lists(ADDRESSES, min_size=8, max_size=24, unique=True))
def test_addresses_that_the_parser_tells_apart_never_share_a_key(texts: list[str]) -> None:
    read = [(normalize_url(text), address(url), url.href) for text in texts if (url := parsed(text))]
    for (one_key, one, one_href), (other_key, other, other_href) in combinations(read, 2):
        assert one_key != other_key or one == other
        assert one_key == other_key or one_href != other_href


@given(TAILS, TAILS)
def test_tails_that_the_parser_tells_apart_never_share_a_key(one: str, other: str) -> None:
    first, second = f"http://a/{one}", f"http://a/{other}"
    if address(URL(first)) != address(URL(second)):
        assert normalize_url(first) != normalize_url(second)


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
def test_texts_that_are_no_web_address_stay_apart(one: str, other: str) -> None:
    first, second = f"./{one}.", f"./{other}."
    assert (normalize_url(first) == normalize_url(second)) == (first == second)


@pytest.mark.parametrize("piece", ["%", "%4", "../", "a/", "&", "@", "é", "\t", ":~", "0", ".", "%61", "\ud800", "["])
@pytest.mark.parametrize("start", ["", "http:", "http://a/", "http://a/?", "http://a/#!", "http://[", "http://a:"])
def test_long_text_has_a_key_too(start: str, piece: str) -> None:
    key = normalize_url(start + piece * 20_000)
    assert normalize_url(key) == key


def test_the_parts_of_an_address_keep_all_parameters() -> None:
    parts = split_url(" HTTP://Bücher.example:080/a/../b?utm_source=x&q=ü#top")
    assert parts is not None
    assert (parts.scheme, parts.host, parts.port) == ("http", "xn--bcher-kva.example", "")
    assert (parts.path, parts.query, parts.has_credentials) == ("/b", "?utm_source=x&q=%C3%BC", False)


@pytest.mark.parametrize("text", ["", "a.example", "mailto:a@b", "http://a b/", "http://a:b/", "http://\ud800/"])
def test_other_texts_have_no_parts(text: str) -> None:
    assert split_url(text) is None
