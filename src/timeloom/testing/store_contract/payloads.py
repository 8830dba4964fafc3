"""Checks that payloads are stored separately from entries, once per tenant and only for it."""

from timeloom.core.blocks import (
    Attachment,
    Thinking,
    UserPrompt,
)
from timeloom.core.blocks.extract_payloads import INLINE_BYTES
from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef, ref_of
from timeloom.core.timeline import Draft
from timeloom.ports.reader import ConversationQuery
from timeloom.testing.store_contract.fixtures import (
    CONVERSATION,
    PATH,
    TURN,
    Open,
    draft,
    expect_error,
    header,
    scoped_store,
)


async def bytes_and_large_text_come_back_as_references(open_store: Open) -> None:
    """Promise 5 of the journal."""
    async with scoped_store(open_store) as store:
        large, largest_inline = "é" * INLINE_BYTES, "a" * INLINE_BYTES
        blocks = [
            Attachment(artifact_path=PATH, mime="image/png", data=b"\x89PNG"),
            Thinking(round=1, text=large),
            Thinking(round=2, text=largest_inline),
        ]
        entries = await store.append(CONVERSATION, 0, [header(), *(draft(block) for block in blocks)])
        picture, text = ref_of(b"\x89PNG"), ref_of(large.encode())
        assert entries[1].block == Attachment(artifact_path=PATH, mime="image/png", data=picture)
        assert entries[2].block == Thinking(round=1, text=text)
        assert entries[3].block == Thinking(round=2, text=largest_inline)
        assert await store.load(CONVERSATION) == list(entries)
        assert await store.read_blob("tenant", picture) == b"\x89PNG"
        assert await store.read_blob("tenant", text) == large.encode()


async def what_a_block_was_read_from_is_a_payload_too(open_store: Open) -> None:
    """Promise 5 of the journal, for the `original` of a draft."""
    async with scoped_store(open_store) as store:
        original = '{"type": "react.thinking", "text": "' + "x" * INLINE_BYTES + '"}'
        await store.append(CONVERSATION, 0, [header(), Draft(TURN, header().ts, Thinking(round=1, text="x"), original)])
        (entry,) = await store.load(CONVERSATION, 1)
        assert entry.original == ref_of(original.encode())
        assert await store.read_blob("tenant", ref_of(original.encode())) == original.encode()
        assert (await store.verify()).blobs == 1


async def equal_payloads_of_a_tenant_are_stored_once(open_store: Open) -> None:
    """Promise 5 of the journal, across conversations."""
    async with scoped_store(open_store) as store:
        same = [draft(Attachment(artifact_path=f"fi:{TURN}.files/{n}.png", mime="a/b", data=b"same")) for n in range(3)]
        await store.append(CONVERSATION, 0, [header(), *same])
        await store.append(ConversationId("conv_b"), 0, [header(), *same])
        assert (await store.verify()).blobs == 1


async def a_stored_payload_can_be_referred_to_again_within_its_tenant_only(open_store: Open) -> None:
    """A copied entry needs no copied payload, and a guessed hash gives no access to another tenant."""
    async with scoped_store(open_store) as store:
        words = "needle " + "hay " * INLINE_BYTES
        await store.append(CONVERSATION, 0, [header(), draft(UserPrompt(text=words))])
        again = (await store.load(CONVERSATION))[1]
        copy = Draft(again.turn_id, again.ts, again.block)
        await store.append(ConversationId("conv_b"), 0, [header(), copy])
        found = await store.conversations(ConversationQuery(tenant="tenant", words="needle"))
        assert {info.id for info in found.conversations} == {"conv_a", "conv_b"}
        for ref in (ref_of(words.encode()), BlobRef("../" * 30, 5), BlobRef("0" * 64, 5), BlobRef("", 0)):
            foreign = [header(tenant="other"), draft(Thinking(round=1, text=ref))]
            await expect_error("blob_missing", store.append(ConversationId("conv_c"), 0, foreign))
            await expect_error("blob_missing", store.read_blob("other", ref))
        await expect_error("conversation_unknown", store.load(ConversationId("conv_c")))


async def tenants_of_any_name_are_kept_apart(open_store: Open) -> None:
    """No tenant name gives access to payloads of another tenant or to files outside the store."""
    async with scoped_store(open_store) as store:
        tenants = ("a", "A", "..", "../a", "a/b", "con", "é", "a" * 300, "a.", " a", "x\x00y", "t_a")
        for n, tenant in enumerate(tenants):
            mine = draft(Attachment(artifact_path=PATH, mime="a/b", data=tenant.encode()))
            await store.append(ConversationId(f"conv_{n}"), 0, [header(tenant=tenant), mine])
        for tenant in tenants:
            page = await store.conversations(ConversationQuery(tenant=tenant))
            assert [info.tenant for info in page.conversations] == [tenant]
            for other in tenants:
                if other == tenant:
                    assert await store.read_blob(tenant, ref_of(other.encode())) == other.encode()
                else:
                    await expect_error("blob_missing", store.read_blob(tenant, ref_of(other.encode())))
        assert (await store.verify()).findings == ()


async def a_payload_is_read_in_parts(open_store: Open) -> None:
    """Reads start at any byte and return nothing past the end; other tenants get `blob_missing`."""
    async with scoped_store(open_store) as store:
        data = bytes(range(256)) * 100
        mine = draft(Attachment(artifact_path=PATH, mime="a/b", data=data))
        await store.append(CONVERSATION, 0, [header(), mine])
        ref = ref_of(data)
        for start, most_bytes in ((0, 10), (0, len(data)), (100, 1), (len(data) - 5, 100), (len(data), 10), (7, 0)):
            part = await store.read_part("tenant", ref, start, most_bytes)
            assert part == data[start : start + most_bytes], (start, most_bytes)
        await expect_error("blob_missing", store.read_part("other", ref, 0, 1))
        await expect_error("blob_missing", store.read_part("tenant", BlobRef("../" * 30, 5), 0, 1))
