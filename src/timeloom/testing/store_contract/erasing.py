"""Checks that an erase removes the content of entries and keeps their positions."""

from msgspec.structs import replace

from timeloom.core.blocks import AnyBlock, Attachment, Erased, Thinking, Titled, UserPrompt
from timeloom.core.blocks.redact import redact_block
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.payload import ref_of
from timeloom.core.timeline import Draft, Entry
from timeloom.ports.reader import ConversationQuery
from timeloom.ports.store import Store
from timeloom.testing.store_contract.fixtures import (
    CONVERSATION,
    PATH,
    Open,
    draft,
    expect_error,
    header,
    scoped_store,
    thought,
)


async def an_erased_entry_keeps_its_place_and_says_nothing(open_store: Open) -> None:
    """Promises 1 and 2 of erasing."""
    async with scoped_store(open_store) as store:
        said = draft(UserPrompt(text="findable " * 9_000))
        before = await store.append(CONVERSATION, 0, [header(), said, thought("kept"), draft(Titled(text="findable"))])
        recorded = await _erase(store, before[1], before[3])
        assert isinstance(recorded.block, Erased)
        assert [form.seq for form in recorded.block.forms] == [2, 4]
        assert recorded == replace(recorded, seq=5, block=Erased(by="somebody", forms=recorded.block.forms))
        after = await store.load(CONVERSATION)
        assert after == [before[0], _erased(before[1]), before[2], _erased(before[3]), recorded]
        info = await store.info(CONVERSATION)
        assert (info.title, info.tail) == ("[ERASED]", 5)
        found = await store.conversations(ConversationQuery(tenant="tenant", words="findable"))
        assert found.conversations == ()
        await expect_error("blob_missing", store.read_blob("tenant", ref_of(b"findable " * 9_000)))
        assert (await store.verify()).findings == ()
        await store.append(CONVERSATION, 5, [draft(Titled(text="Another"))])
        assert (await store.info(CONVERSATION)).title == "Another"


async def a_payload_that_something_refers_to_outlives_an_erase(open_store: Open) -> None:
    """Holds for references from another entry and from another conversation of the tenant."""
    async with scoped_store(open_store) as store:
        picture = draft(Attachment(artifact_path=PATH, mime="a/b", data=b"shared"))
        first = await store.append(CONVERSATION, 0, [header(), picture, picture])
        (_, other) = await store.append(ConversationId("conv_b"), 0, [header(), picture])
        await _erase(store, first[1])
        assert await store.read_blob("tenant", ref_of(b"shared")) == b"shared"
        await _erase(store, first[2])
        assert await store.read_blob("tenant", ref_of(b"shared")) == b"shared"
        await _erase(store, other, conversation=ConversationId("conv_b"))
        await expect_error("blob_missing", store.read_blob("tenant", ref_of(b"shared")))
        assert (await store.verify()).findings == ()


async def nothing_but_the_erased_form_takes_the_place_of_an_entry(open_store: Open) -> None:
    """Promise 1 of erasing: an erase cannot be used to rewrite a timeline."""
    async with scoped_store(open_store) as store:
        entries = await store.append(CONVERSATION, 0, [header(), thought("a thought"), thought("another")])
        good = _erased(entries[1])
        wrong = [
            entries[1],
            replace(good, block=UserPrompt(text="rewritten", erased=True)),
            replace(good, block=Thinking(round=2, text="[ERASED]", erased=True)),
            replace(good, block=Thinking(round=1, text=ref_of(b"another's"), erased=True)),
            replace(good, ts="2020-01-01T00:00:00Z"),
            replace(good, turn_id=TurnId("turn_other")),
            replace(good, seq=9),
            replace(good, original="{}"),
        ]
        for entry in wrong:
            await expect_error("entry_malformed", store.erase(CONVERSATION, 3, [entry], _record()))
        await expect_error("entry_malformed", store.erase(CONVERSATION, 3, [good, good], _record()))
        await expect_error("entry_malformed", store.erase(CONVERSATION, 3, [], _record()))
        assert await store.load(CONVERSATION) == list(entries)


async def an_erase_is_refused_where_an_append_is(open_store: Open) -> None:
    """Promise 2 of erasing: a wrong tail or lease refuses an erase, as it refuses an append."""
    async with scoped_store(open_store) as store:
        entries = await store.append(CONVERSATION, 0, [header(), thought("a thought")])
        gone = [_erased(entries[1])]
        await expect_error("conflict", store.erase(CONVERSATION, 1, gone, _record()))
        lease = await store.acquire(CONVERSATION, "holder")
        await expect_error("conversation_held", store.erase(CONVERSATION, 2, gone, _record()))
        await store.erase(CONVERSATION, 2, gone, _record(), lease)
        await store.release(lease)
        await expect_error("lease_lost", store.erase(CONVERSATION, 3, gone, _record(), lease))
        await expect_error("conversation_unknown", store.erase(ConversationId("conv_none"), 3, gone, _record()))
        assert (await store.info(CONVERSATION)).tail == 3


async def snapshots_do_not_outlive_an_erase(open_store: Open) -> None:
    """Promise 3 of erasing; `scrub` drops the snapshots of all conversations."""
    async with scoped_store(open_store) as store:
        entries = await store.append(CONVERSATION, 0, [header(), thought("a thought")])
        await store.append(ConversationId("conv_b"), 0, [header()])
        for name in (CONVERSATION, ConversationId("conv_b")):
            await store.save_snapshot(name, 1, "v1", b"with a thought")
        await _erase(store, entries[1])
        assert await store.load_snapshot(CONVERSATION, "v1") is None
        assert await store.load_snapshot(ConversationId("conv_b"), "v1") == (1, b"with a thought")
        await store.scrub()
        assert await store.load_snapshot(ConversationId("conv_b"), "v1") is None


async def what_was_erased_stays_so_after_opening_again(open_store: Open) -> None:
    """Erased entries stay erased after reopening, and `scrub` works while another store is open."""
    async with scoped_store(open_store) as store, scoped_store(open_store) as other:
        entries = await store.append(CONVERSATION, 0, [header(), thought("a thought"), thought("kept")])
        await _erase(store, entries[1])
        await store.scrub()
        assert (await other.load(CONVERSATION))[1:3] == [_erased(entries[1]), entries[2]]
        await other.append(CONVERSATION, 4, [thought("on")])
    async with scoped_store(open_store) as store:
        assert (await store.load(CONVERSATION))[1:3] == [_erased(entries[1]), entries[2]]
        assert (await store.verify()).findings == ()


async def _erase(store: Store, *entries: Entry, conversation: ConversationId = CONVERSATION) -> Entry:
    tail = (await store.info(conversation)).tail
    return await store.erase(conversation, tail, [_erased(entry) for entry in entries], _record())


def _erased(entry: Entry) -> Entry:
    block: AnyBlock = redact_block(entry.block)
    return replace(entry, block=block)


def _record() -> Draft:
    return draft(Erased(by="somebody"))
