"""Batches of an append: which drafts are light, and that light drafts are stored as all others are."""

import pytest
from hypothesis import assume, given
from msgspec.structs import replace

from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    ConversationStarted,
    Followup,
    ModelCalled,
    RoundStarted,
    SourcesAdded,
    Thinking,
    UserPrompt,
)
from timeloom.core.blocks.extract_payloads import INLINE_BYTES, REPEATED_BYTES
from timeloom.core.ids import ConversationId, MessageId, TurnId
from timeloom.core.payload import BlobRef
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Draft
from timeloom.stores.batch import LIGHT_DRAFTS, is_light, make_batch, open_work_after
from timeloom.stores.feedback_rows import extract_batch_feedback
from timeloom.testing.strategies import later_blocks

NAME = ConversationId("conv_batch")
TURN = TurnId("turn_1")
TS = "2026-02-09T02:14:32.676425Z"
REF = BlobRef(sha256="0" * 64, size_bytes=5)
HEADER = ConversationStarted(tenant="t", project="p", user="u")


def draft(block: AnyBlock, original: str | BlobRef = "") -> Draft:
    return Draft(TURN, TS, block, original)


def called(system: str | BlobRef) -> ModelCalled:
    return ModelCalled(round=1, model="m", request_sha256="0" * 64, system=system, tail="t")


LIGHT = {
    "a short text": draft(UserPrompt(text="hello")),
    "the longest text that is stored inline": draft(UserPrompt(text="x" * INLINE_BYTES)),
    "the longest text of such bytes that is stored inline": draft(UserPrompt(text="é" * (INLINE_BYTES // 2))),
    "a short original": draft(UserPrompt(text="hello"), "{}"),
    "the longest repeated text that is stored inline": draft(called("x" * REPEATED_BYTES)),
    "a repeated text that an earlier entry stored": draft(called(REF)),
    "a tuple of words": draft(Completion(text="Done.", suggested_followups=("More?",))),
    "a header": draft(HEADER),
}
HEAVY = {
    "a text that becomes a payload": draft(UserPrompt(text="x" * (INLINE_BYTES + 1))),
    "a text whose bytes become a payload": draft(UserPrompt(text="é" * (INLINE_BYTES // 2 + 1))),
    "a stored text": draft(UserPrompt(text=REF)),
    "a long original": draft(UserPrompt(text="hello"), "x" * (INLINE_BYTES + 1)),
    "a stored original": draft(UserPrompt(text="hello"), REF),
    "a repeated text that becomes a payload": draft(called("x" * (REPEATED_BYTES + 1))),
    "rows of sources": draft(SourcesAdded(rows=(SourceRow(sid=1, url="https://a.example/"),))),
}


@pytest.mark.parametrize("name", LIGHT)
def test_a_draft_without_payloads_is_light(name: str) -> None:
    assert is_light([LIGHT[name]])
    assert is_light([LIGHT[name]] * LIGHT_DRAFTS)


@pytest.mark.parametrize("name", HEAVY)
def test_a_draft_with_a_payload_is_not_light_nor_is_an_append_with_it(name: str) -> None:
    assert not is_light([HEAVY[name]])
    assert not is_light([LIGHT["a short text"], HEAVY[name]])


def test_many_drafts_are_not_light() -> None:
    assert not is_light([LIGHT["a short text"]] * (LIGHT_DRAFTS + 1))


def test_light_drafts_make_the_same_batch_as_any_others() -> None:
    drafts = [draft(HEADER), *(one for one in LIGHT.values() if not isinstance(one.block, ConversationStarted))]
    assert is_light(drafts)
    light, other = make_batch(NAME, 0, drafts), make_batch(NAME, 0, drafts, lambda _: "")
    assert light == other


def test_a_long_text_becomes_a_payload_that_its_entry_refers_to() -> None:
    text = "x" * (INLINE_BYTES + 1)
    batch = make_batch(NAME, 1, [draft(Followup(message_id=MessageId("m1"), text=text))], lambda _: "")
    ((ref, data),) = batch.payloads.items()
    assert (batch.references, data) == ((ref,), text.encode())
    assert batch.searchable_texts == ((2, text),)


def test_a_batch_of_plain_blocks_is_the_same_as_any_other() -> None:
    drafts = [draft(RoundStarted(round=1)), draft(Thinking(round=1, text="Thinking."))]
    light, other = make_batch(NAME, 1, drafts), make_batch(NAME, 1, drafts, lambda _: "")
    assert light.is_plain
    assert light == replace(other, is_plain=True)


@given(later_blocks)
def test_a_plain_batch_changes_nothing_but_the_entries(block: AnyBlock) -> None:
    drafts = [draft(block)]
    assume(is_light(drafts))
    batch = make_batch(NAME, 1, drafts)
    if batch.is_plain:
        assert batch == replace(make_batch(NAME, 1, drafts, lambda _: ""), is_plain=True)
        assert not extract_batch_feedback(batch) and not batch.ends_turn
        assert open_work_after(None, batch.entries) is None and open_work_after(TURN, batch.entries) == TURN
        assert not batch.searchable_texts and not batch.title and not batch.references
