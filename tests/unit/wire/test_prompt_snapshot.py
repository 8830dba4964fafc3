"""Snapshots of prompts: a prompt that was stored goes on as if it had never been stored."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import Attachment, ModelCalled, Thinking, TurnStarted, UserPrompt
from timeloom.core.ids import TurnId
from timeloom.core.render.prompt import PromptView
from timeloom.core.timeline import Draft, Entry, to_entry
from timeloom.core.view.views import Views
from timeloom.testing.conversations import AnyPayload, conversations
from timeloom.wire import prompt_snapshot
from timeloom.wire.prompt_snapshot import decode_head, decode_page, encode_head, encode_pages

TURN = TurnId("turn_1")
TS = "2026-02-09T02:14:32.676425Z"


def follow(entries: Iterable[Entry], prompt: PromptView, views: Views) -> PromptView:
    for entry in entries:
        views.add(entry)
        prompt.add(entry, views, AnyPayload())
    return prompt


def store_and_load(prompt: PromptView) -> PromptView:
    pages = list(encode_pages(prompt))
    head = decode_head(encode_head(prompt, len(pages), 0))
    assert head
    assert head.pages == len(pages)
    parts = [part for page in pages for part in decode_page(page) or ()]
    return PromptView.from_stored(prompt.seq, parts, head.aliases, prompt.renderer)


@given(conversations(), st.data())
def test_a_stored_prompt_goes_on_as_if_it_had_never_been_stored(entries: list[Entry], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(entries)))
    views = Views()
    stored = store_and_load(follow(entries[:place], PromptView(), views))
    prompt = follow(entries[place:], stored, views)
    plain = follow(entries, PromptView(), Views())
    assert prompt.segments() == plain.segments()
    assert (prompt.tokens, prompt.fingerprint(), prompt.seq) == (plain.tokens, plain.fingerprint(), plain.seq)
    assert prompt.find_heavy(1, len(entries)) == plain.find_heavy(1, len(entries))


def test_a_long_prompt_has_several_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_snapshot, "PAGE_CHARS", 100)
    rounds = [
        block
        for n in range(1, 9)
        for block in (Thinking(round=n, text="thought " * 20), ModelCalled(round=n, model="m", request_sha256="x"))
    ]
    blocks = [TurnStarted(n=1), UserPrompt(text="a"), *rounds]
    entries = [to_entry(Draft(TURN, TS, block), seq) for seq, block in enumerate(blocks, 1)]
    prompt = follow(entries, PromptView(), Views())
    assert len(list(encode_pages(prompt))) > 3
    assert store_and_load(prompt).segments() == prompt.segments()


def test_attachments_come_back_as_they_were() -> None:
    picture = Attachment(artifact_path="fi:turn_1.user.attachments/map.png", mime="image/png", data=b"\x89PNG")
    blocks = [TurnStarted(n=1), UserPrompt(text="a"), picture, picture]
    entries = [to_entry(Draft(TURN, TS, block), seq) for seq, block in enumerate(blocks, 1)]
    prompt = follow(entries, PromptView(), Views())
    assert [segment.data for segment in store_and_load(prompt).segments()] == [None, b"\x89PNG", b"\x89PNG"]


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x80", b"\x91\x01"])
def test_a_damaged_snapshot_is_no_snapshot(data: bytes) -> None:
    assert (decode_head(data), decode_page(data)) == (None, None)
