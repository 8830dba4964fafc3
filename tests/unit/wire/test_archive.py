"""The JSON parts of an archive, and the checks of records and hashes from outside."""

import pytest
from msgspec.structs import replace

from timeloom.core.blocks import ConversationStarted, Thinking
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.payload import BlobRef
from timeloom.core.timeline import NO_TURN, Draft, to_entry
from timeloom.wire.archive import (
    ArchivedConversation,
    check_references,
    decode_hex,
    decode_json,
    decode_link,
    encode_link,
    encode_utf8,
    parse_payload_member,
    payload_member,
)
from timeloom.wire.chain import ChainLink, hash_before_first, hash_link
from timeloom.wire.heads import Head
from timeloom.wire.linked_entries import decode_linked_entries
from timeloom.wire.record import encode_record

TS = "2026-02-09T02:14:32.676425Z"
CONVERSATION = ConversationId("conv_1")
ONE, TWO = "1" * 64, "2" * 64


def make_links(*, chained: bool = True, header_twice: bool = False) -> tuple[ChainLink, ...]:
    header = ConversationStarted(tenant="t", project="p", user="u")
    second = header if header_twice else Thinking(round=1, text="why")
    drafts = [Draft(NO_TURN, TS, header), Draft(TurnId("turn_1"), TS, second)]
    links: list[ChainLink] = []
    for seq, draft in enumerate(drafts, 1):
        before = hash_link(links[-1]) if links else hash_before_first(CONVERSATION, 1)
        link = ChainLink(seq, bytes([seq]) * 16, before) if chained else ChainLink(seq)
        links.append(replace(link, record=encode_record(to_entry(draft, seq))))
    return tuple(links)


def code_of(links: tuple[ChainLink, ...], head: bytes, heads: tuple[Head, ...] = (), name: str = CONVERSATION) -> str:
    with pytest.raises(CodedError) as refused:
        decode_linked_entries(ConversationId(name), links, head, heads)
    return refused.value.code


def test_records_with_or_without_a_chain_become_entries() -> None:
    links = make_links()
    head = Head(conversation=CONVERSATION, seq=2, ts=TS, hash=hash_link(links[1]).hex())
    for entries in (
        decode_linked_entries(CONVERSATION, links, hash_link(links[1]), [head]),
        decode_linked_entries(CONVERSATION, make_links(chained=False), b""),
    ):
        assert [(entry.seq, entry.turn_id) for entry in entries] == [(1, ""), (2, "turn_1")]


def test_links_that_no_store_writes_are_malformed() -> None:
    links = make_links()
    head = hash_link(links[1])
    first, second = links
    assert code_of(links, head, name="../x") == "archive_malformed"
    assert code_of((), head) == "archive_malformed"
    assert code_of((second, first), head) == "archive_malformed"
    for changed in (
        replace(second, salt=b"1"),
        replace(second, before=b"1"),
        replace(second, content=b"1"),
        replace(second, content=b"1" * 2000),
        replace(second, salt=b""),
        replace(second, record=b"not a record"),
    ):
        assert code_of((first, changed), head) == "archive_malformed"
    assert code_of((first, replace(second, record=b'1 now\n{"type":"')), head) == "entry_damaged"


def test_a_second_header_is_malformed() -> None:
    links = make_links(header_twice=True)
    assert code_of(links, hash_link(links[1])) == "archive_malformed"


def test_hashes_that_do_not_fit_break_the_chain() -> None:
    links = make_links()
    head = hash_link(links[1])
    late = Head(conversation=CONVERSATION, seq=3, ts=TS, hash="00")
    assert code_of(links, b"") == "chain_broken"
    assert code_of(links, b"other") == "chain_broken"
    assert code_of(make_links(chained=False), head) == "chain_broken"
    assert code_of(links, head, (late,)) == "chain_broken"
    assert code_of(links, head, (replace(late, seq=2),)) == "chain_broken"


def test_a_link_comes_back_from_its_line() -> None:
    for link in (*make_links(), *make_links(chained=False)):
        assert decode_link(encode_link(link).rstrip(b"\n"), "entries.jsonl") == link
    with pytest.raises(CodedError, match="not UTF-8"):
        encode_link(ChainLink(1, record=b"\xff"))


def test_text_from_outside_is_checked() -> None:
    assert decode_hex("00ff", "a") == b"\x00\xff"
    for text in ("0", "0G", "00 ff", "FF"):
        with pytest.raises(CodedError, match="not in hex"):
            decode_hex(text, "a")
    assert encode_utf8("é", "a") == "é".encode()
    with pytest.raises(CodedError, match="surrogate"):
        encode_utf8("\ud800", "a")
    for data in (b"{}", b"\xff", b"[" * 100_000, b'{"id":"a","tail":1,"head":"","files":0,"more":1}'):
        with pytest.raises(CodedError) as refused:
            decode_json(data, ArchivedConversation, "conversation.json")
        assert refused.value.code == "archive_malformed"


def test_names_of_payloads_are_hashes() -> None:
    assert parse_payload_member(payload_member(ONE)) == ONE
    assert parse_payload_member("payloads/../x") == ""


def test_references_have_a_hash_and_one_size() -> None:
    assert check_references(frozenset({BlobRef(ONE, 1), BlobRef(TWO, 2)})) == {ONE: 1, TWO: 2}
    for refs in ({BlobRef("../x", 1)}, {BlobRef(ONE, -1)}, {BlobRef(ONE, 1), BlobRef(ONE, 2)}):
        with pytest.raises(CodedError) as refused:
            check_references(frozenset(refs))
        assert refused.value.code == "archive_malformed"
