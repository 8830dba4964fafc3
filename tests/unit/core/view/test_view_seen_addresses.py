"""An address that neither the user typed nor a source contains is new."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import AnyBlock, ExternalEvent, Followup, SourcesAdded, Steer, UserPrompt
from timeloom.core.ids import CallId, MessageId, TurnId
from timeloom.core.payload import BlobRef
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Entry
from timeloom.core.view.seen_addresses import (
    MAX_ADDRESS_CHARS,
    MAX_SEEN,
    NewAddress,
    SeenAddressesView,
    find_param_texts,
)

TS = "2026-02-09T02:14:32.676425Z"


def after(*blocks: AnyBlock) -> SeenAddressesView:
    view = SeenAddressesView()
    for seq, block in enumerate(blocks, 1):
        view.add(Entry(seq=seq, turn_id=TurnId("turn_1"), ts=TS, block=block))
    return view


def new(view: SeenAddressesView, *urls: str) -> list[str]:
    return [address.url for address in view.find_new(urls)]


def source(url: str = "", text: str = "", extra: str = "") -> SourcesAdded:
    row = SourceRow(sid=1, source_type="web", url=url, title="t", text=text, extra=extra)
    return SourcesAdded(rows=(row,), tool_call_id=CallId("c"))


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("read https://a.example/x?y=1", "https://a.example/x?y=1"),
        ("read https://a.example/x.", "https://a.example/x"),
        ("(see http://a.example/x)", "https://a.example/x"),
        ("see [it](https://a.example/x_(y))", "https://a.example/x_(y)"),
        ("HTTPS://A.example:443/x#top", "https://a.example/x"),
        ("look at a.example/x, please", "https://a.example/x"),
        ("look at a.example", "https://a.example/"),
        ("https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
    ],
)
@pytest.mark.parametrize("kind", ["prompt", "followup", "steer", "event"])
def test_addresses_that_the_user_typed_are_known(text: str, url: str, kind: str) -> None:
    block = {
        "prompt": UserPrompt(text=text),
        "followup": Followup(text=text, message_id=MessageId("m")),
        "steer": Steer(text=text, message_id=MessageId("m")),
        "event": ExternalEvent(kind="form", text=text, message_id=MessageId("m"), author="user"),
    }[kind]
    assert new(after(block), url) == []
    assert new(after(), url) == [url]


def test_text_of_others_makes_no_address_known() -> None:
    quoted = UserPrompt(text="https://a.example/", quoted_roles=("assistant",))
    event = ExternalEvent(kind="alert", text="https://a.example/", message_id=MessageId("m"), author="bot")
    kept = UserPrompt(text=BlobRef("0" * 64, 5))
    assert new(after(quoted, event, kept), "https://a.example/") == ["https://a.example/"]


def test_addresses_of_sources_their_snippets_and_links_are_known() -> None:
    view = after(source("https://a.example/x", "see https://b.example/y.", '{"links":["https://c.example/z", 3]}'))
    assert new(view, "https://a.example/x", "https://b.example/y", "https://c.example/z") == []
    assert new(after(source(extra='{"links":"https://d.example/"}')), "https://d.example/") == []


@pytest.mark.parametrize("url", ["https://a.example/x?utm_source=secret", "https://a.example/x/secret"])
def test_the_new_part_of_an_address_is_shown(url: str) -> None:
    (address,) = after(source("https://a.example/x")).find_new([url, url])
    assert address == NewAddress(url=url, known="a.example/x", added=url.removeprefix("https://a.example/x"))


def test_an_address_of_a_new_host_has_no_known_part() -> None:
    (address,) = after(source("https://a.example/x")).find_new(["https://a.example.evil.example/x"])
    assert (address.known, address.added) == ("", "a.example.evil.example/x")


def test_a_reference_is_new_and_what_cannot_be_requested_is_not() -> None:
    assert new(after(), " ref:fi:t1/x.txt", "file:///etc/passwd", "nonsense") == [" ref:fi:t1/x.txt"]


def test_very_long_and_very_many_addresses_are_not_remembered() -> None:
    long = f"https://a.example/{'x' * MAX_ADDRESS_CHARS}"
    assert new(after(source(long)), long) == [long]
    view = after(source("https://a.example/x"))
    view.seen = {str(n): 1 for n in range(MAX_SEEN)}
    view.add(Entry(seq=2, turn_id=TurnId("turn_1"), ts=TS, block=source("https://b.example/")))
    assert new(view, "https://b.example/") == ["https://b.example/"]


def test_the_texts_of_parameters_are_found_in_lists() -> None:
    params = '{"urls": ["a", 3, ["x"]], "url": "b", "other": "c"}'
    assert find_param_texts(params, ("urls", "url", "none")) == ["a", "b"]
    assert find_param_texts(params, ()) == []


@given(
    st.text(max_size=200) | st.from_regex(r"(https?://[a-z.]{1,20}/[a-z?&=%(){}\[\].,]{0,20} ?){1,4}", fullmatch=True)
)
def test_any_text_is_scanned_and_an_address_in_it_is_known(text: str) -> None:
    view = after(UserPrompt(text=text))
    words = [word for word in text.split() if word.startswith("https://") and not set(word) & set("<>\"'`\\^{}|\x00")]
    assert new(view, *words) == []
