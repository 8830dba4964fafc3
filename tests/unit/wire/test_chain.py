"""The hash chain: what its hashes cover, and how a checker reads it."""

from msgspec.structs import replace

from timeloom.core.blocks import Erased, ErasedForm, Thinking
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.timeline import Draft, Entry, to_entry
from timeloom.wire.chain import (
    HASH_BYTES,
    ChainChecker,
    ChainLink,
    erased_content,
    hash_before_first,
    hash_content,
    hash_entry,
    hash_link,
    link_entry,
    record_beginning,
)
from timeloom.wire.heads import Head, decode_heads, encode_head, signed_bytes
from timeloom.wire.record import encode_record

NAME, TS = ConversationId("conv_a"), "2026-01-01T00:00:00Z"
SALT = b"0123456789abcdef"


def entry(seq: int, text: str = "x", *, erased: bool = False) -> Entry:
    return to_entry(Draft(TurnId("turn_1"), TS, Thinking(round=1, text=text, erased=erased)), seq)


def chained(*entries: Entry, before: bytes | None = None) -> list[tuple[Entry, bytes, ChainLink]]:
    records = [encode_record(each) for each in entries]
    first = entries[0].seq
    before = hash_before_first(NAME, first) if before is None else before
    links: list[ChainLink] = []
    for each, record in zip(entries, records, strict=True):
        links.append(ChainLink(each.seq, SALT, before))
        before = link_entry(before, SALT, each.seq, record)
    return list(zip(entries, records, links, strict=True))


def test_a_record_begins_with_turn_time_and_type() -> None:
    assert record_beginning(encode_record(entry(1))) == b'1 2026-01-01T00:00:00Z\n{"type":"react.thinking'


def test_the_links_are_the_hashes_of_the_entries_before() -> None:
    (_, record, link), (_, _, second) = chained(entry(1), entry(2))
    assert link.before == hash_before_first(NAME, 1) != hash_before_first(NAME, 2)
    content = hash_content(SALT, record)
    assert second.before == hash_entry(link.before, content, 1, record_beginning(record))
    assert len(second.before) == HASH_BYTES


def test_an_entry_without_a_chain_has_no_hash() -> None:
    (_, record, link), (_, _, second) = chained(entry(1), entry(2))
    assert hash_link(replace(link, record=record)) == second.before
    assert hash_link(ChainLink(1, record=record)) == b""


def test_the_chain_goes_on_after_an_entry_that_cannot_be_read_or_is_missing() -> None:
    rows = chained(*(entry(seq) for seq in range(1, 7)))
    checker = ChainChecker(NAME)
    for row in (rows[0], None, rows[2], rows[4], rows[5]):
        if row:
            checker.add(*row)
        else:
            checker.skip(2)
    head = checker.hash
    assert checker.finish(head) == []
    assert (checker.first_seq, checker.erased_count) == (1, 0)


def test_a_hash_that_was_written_elsewhere_is_compared() -> None:
    rows = chained(entry(1), entry(2))
    for heads, count in (({1: rows[1][2].before.hex()}, 0), ({1: "00"}, 1), ({5: "00"}, 0)):
        checker = ChainChecker(NAME, heads)
        for row in rows:
            checker.add(*row)
        assert len(checker.finish(checker.hash)) == count


def test_only_an_erasure_that_follows_explains_an_erased_form() -> None:
    (kept, record, link), *_ = chained(entry(1))
    gone = entry(1, "[ERASED]", erased=True)
    form = hash_content(SALT, encode_record(gone)).hex()
    after = ChainLink(1, SALT, link.before, erased_content(link, record, encode_record(gone)))
    for forms, count in (
        ((ErasedForm(1, form),), 0),
        ((ErasedForm(1, "00"),), 1),
        ((ErasedForm(2, form),), 1),
        ((), 1),
    ):
        recorded = to_entry(Draft(TurnId(""), TS, Erased(by="somebody", forms=forms)), 2)
        head = hash_entry(link.before, hash_content(SALT, record), 1, record_beginning(record))
        checker = ChainChecker(NAME)
        checker.add(gone, encode_record(gone), after)
        checker.add(*chained(recorded, before=head)[0])
        assert [problem.seq for problem in checker.finish(checker.hash)] == [1] * count
    assert kept.seq == 1


def test_an_erased_form_that_begins_differently_keeps_the_beginning() -> None:
    """An older version knows a newer type only as an unknown block, and erases it as one."""
    (_, record, link), *_ = chained(entry(1))
    other = record.replace(b"react.thinking", b"unknown")
    content = erased_content(link, record, other)
    assert content == hash_content(SALT, record) + record_beginning(record)
    again = ChainLink(1, SALT, link.before, content)
    assert erased_content(again, other, other) == content
    assert erased_content(ChainLink(1), record, other) == b""


def test_heads_are_lines_and_what_is_no_head_is_left_out() -> None:
    head = Head(conversation=NAME, seq=3, ts=TS, hash="ab", key="cd", signature="ef")
    lines = [encode_head(head), b"", b"{", b"\xff", encode_head(head)[:20], b" " * 5000 + encode_head(head)]
    assert list(decode_heads(lines)) == [head]
    assert signed_bytes(head) == f"timeloom head 1\nconv_a 3 {TS} ab".encode()


def test_an_entry_with_a_head_that_lost_its_hash_is_named() -> None:
    """Without the columns of the chain, an edited conversation would pass as one from before chains."""
    checker = ChainChecker(NAME, {2: "00" * 32})
    for each in (entry(1), entry(2)):
        checker.add(each, encode_record(each), ChainLink(each.seq))
    assert [(one.seq, "lost its hash" in one.message) for one in checker.finish(None)] == [(2, True)]
