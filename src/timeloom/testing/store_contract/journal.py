"""Checks of appends, concurrent appends and deletes."""

import asyncio

from timeloom.core.blocks import (
    Attachment,
    Thinking,
    Titled,
    UserPrompt,
)
from timeloom.core.blocks.extract_payloads import INLINE_BYTES
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.payload import ref_of
from timeloom.core.timeline import to_entry
from timeloom.ports.journal import ConflictError
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


async def appended_entries_are_numbered_from_one_and_load_as_returned(open_store: Open) -> None:
    """Promises 1 and 3 of the journal, without a power cut."""
    async with scoped_store(open_store) as store:
        drafts = [header(), thought("one"), thought("two")]
        first = await store.append(CONVERSATION, 0, drafts)
        second = await store.append(CONVERSATION, 3, [thought("three")])
        assert first == tuple(to_entry(each, seq) for seq, each in enumerate(drafts, 1))
        assert [entry.seq for entry in second] == [4]
        assert await store.load(CONVERSATION) == [*first, *second]


async def a_wrong_tail_is_a_conflict_and_changes_nothing(open_store: Open) -> None:
    """Promises 2 and 3 of the journal."""
    async with scoped_store(open_store) as store:
        await expect_error("conflict", store.append(CONVERSATION, 3, [thought("too early")]))
        await expect_error("conversation_unknown", store.load(CONVERSATION))
        await store.append(CONVERSATION, 0, [header(), thought("one")])
        before = await store.load(CONVERSATION), await store.info(CONVERSATION)
        for tail, drafts in ((0, [header()]), (1, [thought("x")]), (3, [thought("x")])):
            error = await expect_error("conflict", store.append(CONVERSATION, tail, drafts))
            assert isinstance(error, ConflictError) and error.tail == 2
        assert (await store.load(CONVERSATION), await store.info(CONVERSATION)) == before


async def the_first_entry_and_no_other_is_the_header(open_store: Open) -> None:
    """Promise 4 of the journal."""
    async with scoped_store(open_store) as store:
        await expect_error("entry_malformed", store.append(CONVERSATION, 0, [thought("no header")]))
        await expect_error("entry_malformed", store.append(CONVERSATION, 0, [header(), header()]))
        await expect_error("entry_malformed", store.append(CONVERSATION, 0, []))
        await expect_error("entry_malformed", store.append(CONVERSATION, -1, [header()]))
        await expect_error("entry_malformed", store.append(ConversationId("../a"), 0, [header()]))
        await expect_error("conversation_unknown", store.info(CONVERSATION))
        await store.append(CONVERSATION, 0, [header()])
        await expect_error("entry_malformed", store.append(CONVERSATION, 1, [thought("x"), header()]))
        assert len(await store.load(CONVERSATION)) == 1


async def of_many_who_append_at_one_tail_one_wins(open_store: Open) -> None:
    """Promise 3 of the journal under concurrent appends."""
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header()])
        for tail in range(1, 6):
            racers = (store.append(CONVERSATION, tail, [thought(f"{racer}")]) for racer in range(12))
            outcomes = await asyncio.gather(*racers, return_exceptions=True)
            assert sum(isinstance(outcome, ConflictError) for outcome in outcomes) == 11
        assert [entry.seq for entry in await store.load(CONVERSATION)] == [1, 2, 3, 4, 5, 6]


async def writers_of_many_conversations_do_not_disturb_each_other(open_store: Open) -> None:
    """Appends that share a commit do not affect each other."""

    async def write(store: Store, conversation: ConversationId) -> None:
        tail = 0
        for drafts in ([header()], [thought(conversation)], [thought("x"), thought("y")], [thought("z" * 40_000)]):
            tail = (await store.append(conversation, tail, drafts))[-1].seq

    async with scoped_store(open_store) as store:
        names = [ConversationId(f"conv_{n}") for n in range(20)]
        await asyncio.gather(*(write(store, name) for name in names))
        for name in names:
            entries = await store.load(name)
            assert [entry.seq for entry in entries] == [1, 2, 3, 4, 5]
            assert entries[1] == to_entry(thought(name), 2)


async def text_that_has_no_utf8_form_is_refused_whole(open_store: Open) -> None:
    """Promise 2 of the journal, for text that cannot be encoded."""
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header()])
        for text in ("\ud800", "\ud800" * INLINE_BYTES):
            for block in (Thinking(round=1, text=text), UserPrompt(text=text), Titled(text=text)):
                attempt = store.append(CONVERSATION, 1, [thought("with it"), draft(block)])
                try:
                    await attempt
                except CodedError:
                    continue
                raise AssertionError("text with a lone surrogate was stored")
        assert (await store.info(CONVERSATION)).tail == 1


async def a_deleted_conversation_is_gone_with_the_payloads_that_only_it_used(open_store: Open) -> None:
    """Payloads that another conversation or tenant uses remain."""
    async with scoped_store(open_store) as store:
        own, shared = (draft(Attachment(artifact_path=PATH, mime="a/b", data=data)) for data in (b"own", b"shared"))
        await store.append(CONVERSATION, 0, [header(), own, shared, draft(UserPrompt(text="findable"))])
        await store.append(ConversationId("conv_b"), 0, [header(), shared])
        await store.append(ConversationId("conv_c"), 0, [header(tenant="other"), own])
        await store.delete(CONVERSATION)
        await expect_error("conversation_unknown", store.load(CONVERSATION))
        await expect_error("blob_missing", store.read_blob("tenant", ref_of(b"own")))
        assert await store.read_blob("tenant", ref_of(b"shared")) == b"shared"
        assert await store.read_blob("other", ref_of(b"own")) == b"own"
        found = await store.conversations(ConversationQuery(tenant="tenant", words="findable"))
        assert found.conversations == ()
        verified = await store.verify()
        assert (verified.conversations, verified.entries, verified.blobs, verified.findings) == (2, 4, 2, ())


async def a_deleted_name_can_be_used_again(open_store: Open) -> None:
    """The second conversation with an id shows no data of the first."""
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header(user="first"), draft(Titled(text="First")), thought("x" * 40_000)])
        await store.save_snapshot(CONVERSATION, 2, "v1", b"of the first")
        await store.delete(CONVERSATION)
        await expect_error("conflict", store.append(CONVERSATION, 3, [thought("late")]))
        await store.append(CONVERSATION, 0, [header(user="second"), thought("x" * 40_000), thought("y")])
        info = await store.info(CONVERSATION)
        assert (info.user, info.title, info.tail) == ("second", "", 3)
        assert await store.load_snapshot(CONVERSATION, "v1") is None
        assert (await store.verify()).findings == ()
