"""Checks that every entry carries the hash of the one before it, and that an erase keeps the chain."""

from msgspec.structs import replace

from timeloom.core.blocks import Erased, UserPrompt
from timeloom.core.blocks.redact import redact_block
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Draft
from timeloom.ports.store import Store
from timeloom.testing.store_contract.fixtures import (
    CONVERSATION,
    Open,
    draft,
    expect_error,
    header,
    scoped_store,
    thought,
)
from timeloom.wire.chain import SALT_BYTES, ChainLink, hash_before_first, hash_content, hash_entry, record_beginning
from timeloom.wire.record import encode_record


async def each_entry_carries_the_hash_of_the_one_before_it(open_store: Open) -> None:
    """Promises 1 and 2 of the chain, over several appends."""
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header(), thought("one"), thought("one")])
        await store.append(CONVERSATION, 3, [thought("x" * 40_000)])
        await store.append(CONVERSATION, 4, [thought("four")])
        links = await store.load_chain(CONVERSATION)
        before = hash_before_first(CONVERSATION, 1)
        for entry, link in zip(await store.load(CONVERSATION), links, strict=True):
            record = encode_record(entry)
            assert link == ChainLink(entry.seq, link.salt, before, b"", record)
            before = hash_entry(before, hash_content(link.salt, record), entry.seq, record_beginning(record))
        assert {len(link.salt) for link in links} == {SALT_BYTES}
        assert len({link.salt for link in links}) == len(links)
        assert await store.load_chain(CONVERSATION, after=1, limit=2) == links[1:3]
        await expect_error("conversation_unknown", store.load_chain(ConversationId("conv_none")))
        assert (await store.verify()).late_chains == ()


async def an_erase_keeps_the_chain_and_no_hash_of_the_content(open_store: Open) -> None:
    """Promise 3 of the chain: also if an entry is erased twice."""
    async with scoped_store(open_store) as store:
        said = draft(UserPrompt(text="1234"))
        entries = await store.append(CONVERSATION, 0, [header(), said, thought("kept")])
        first = await store.load_chain(CONVERSATION)
        for tail in (3, 4):
            gone = replace(entries[1], block=redact_block(entries[1].block))
            recorded = await store.erase(CONVERSATION, tail, [gone], draft(Erased(by="somebody")))
            links = await store.load_chain(CONVERSATION)
            assert [link.before for link in links[:3]] == [link.before for link in first]
            assert links[1].content == hash_content(first[1].salt, encode_record(entries[1]))
            assert links[1].salt != first[1].salt
            assert isinstance(recorded.block, Erased)
            (form,) = recorded.block.forms
            assert (form.seq, form.hash) == (2, hash_content(links[1].salt, encode_record(gone)).hex())
        kept = [value for link in links for value in (link.salt, link.before, link.content)]
        assert first[1].salt not in kept
        report = await store.verify()
        assert (report.findings, report.erased) == ((), 1)


async def a_copied_conversation_has_a_chain_of_its_own(open_store: Open) -> None:
    """A fork copies entries, also erased ones and the records of erasures, and gets new salts and hashes."""
    copy = ConversationId("conv_copy")
    async with scoped_store(open_store) as store:
        entries = await store.append(CONVERSATION, 0, [header(), thought("erased"), thought("kept")])
        gone = replace(entries[1], block=redact_block(entries[1].block))
        await store.erase(CONVERSATION, 3, [gone], draft(Erased(by="somebody")))
        await store.append(copy, 0, await _drafts(store))
        links = await store.load_chain(CONVERSATION) + await store.load_chain(copy)
        assert len({link.salt for link in links}) == len({link.before for link in links}) == 8
        report = await store.verify()
        assert (report.findings, report.erased) == ((), 1)


async def _drafts(store: Store) -> list[Draft]:
    entries = await store.load(CONVERSATION)
    return [Draft(entry.turn_id, entry.ts, entry.block, entry.original) for entry in entries]
