"""Checks that an imported conversation is the one that was exported, with its hashes, or is not there at all."""

from msgspec.structs import replace

from timeloom.core.blocks import Erased, Feedback, Titled, UserPrompt
from timeloom.core.blocks.extract_payloads import find_blob_refs
from timeloom.core.blocks.redact import redact_block
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef
from timeloom.core.timeline import Draft
from timeloom.ports.importer import ImportedConversation, ReadPayload
from timeloom.ports.reader import ConversationQuery
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
from timeloom.wire.chain import ChainLink, hash_link
from timeloom.wire.record import decode_record

_LARGE = "large text " * 8_000


async def an_imported_conversation_has_the_hashes_of_the_original(open_store: Open) -> None:
    """Promise 1 of the importer: also its erased entries, title, payloads, feedback and search terms."""
    async with scoped_store(open_store) as store:
        imported, payloads = await _make_conversation(store)
        info, entries = await store.info(CONVERSATION), await store.load(CONVERSATION)
        await store.delete(CONVERSATION)
        await store.import_conversation(imported, _reader(payloads), _place_nothing)
        assert await store.load(CONVERSATION) == entries
        assert tuple(await store.load_chain(CONVERSATION)) == imported.links
        assert await store.info(CONVERSATION) == info
        report = await store.verify()
        assert (report.findings, report.erased) == ((), 2)
        for words, found in (("ferry", 1), ("erased", 0), ("secret", 0)):
            query = ConversationQuery(tenant="tenant", words=words)
            assert len((await store.conversations(query)).conversations) == found, words
        await store.append(CONVERSATION, info.tail, [thought("further")])
        assert (await store.verify()).findings == ()


async def an_import_that_fails_leaves_nothing(open_store: Open) -> None:
    """Promise 2 of the importer: a missing payload and an error of the files undo everything."""
    async with scoped_store(open_store) as store:
        imported, payloads = await _make_conversation(store)
        await store.delete(CONVERSATION)

        def fail() -> None:
            raise OSError(28, "No space left on device")

        before = await store.verify()
        wrong = dict.fromkeys(payloads, b"other bytes")
        await expect_error("blob_damaged", store.import_conversation(imported, _reader(wrong), _place_nothing))
        try:
            await store.import_conversation(imported, _reader(payloads), fail)
        except (OSError, CodedError):
            pass
        else:
            raise AssertionError("an error of the files was expected")
        assert await store.conversation_ids() == []
        await expect_error("conversation_unknown", store.info(CONVERSATION))
        assert (await store.verify()).findings == before.findings == ()


async def an_import_refuses_what_exists_or_does_not_fit(open_store: Open) -> None:
    """Promise 3 of the importer: a changed record, a moved hash, a missing entry and a taken id."""
    async with scoped_store(open_store) as store:
        imported, payloads = await _make_conversation(store)
        read = _reader(payloads)
        links = imported.links
        await expect_error("conversation_exists", store.import_conversation(imported, read, _place_nothing))
        await store.delete(CONVERSATION)
        changed = replace(links[2], record=links[2].record.replace(b"quickest", b"cheapest"))
        for broken in (
            replace(imported, links=(*links[:2], changed, *links[3:])),
            replace(imported, links=(*links[:2], replace(links[2], salt=bytes(16)), *links[3:])),
            replace(imported, links=links[:-1]),
            replace(imported, head=b""),
            replace(imported, id=ConversationId("conv_other")),
        ):
            await expect_error("chain_broken", store.import_conversation(broken, read, _place_nothing))
        for malformed in (
            replace(imported, links=()),
            replace(imported, links=links[1:]),
            replace(imported, links=(*links[:2], replace(links[2], before=b"short"), *links[3:])),
            replace(imported, id=ConversationId("../conv")),
        ):
            await expect_error("archive_malformed", store.import_conversation(malformed, read, _place_nothing))
        assert await store.conversation_ids() == []


async def _make_conversation(store: Store) -> tuple[ImportedConversation, dict[BlobRef, bytes]]:
    drafts: list[Draft] = [
        header(),
        draft(UserPrompt(text="a secret")),
        draft(UserPrompt(text="Which ferry is the quickest?")),
        thought(_LARGE),
        draft(Titled(text="a secret title")),
        draft(Feedback(reaction="ok", origin="user")),
    ]
    entries = await store.append(CONVERSATION, 0, drafts)
    gone = [replace(entry, block=redact_block(entry.block)) for entry in (entries[1], entries[4])]
    await store.erase(CONVERSATION, 6, gone, draft(Erased(by="somebody")))
    links = tuple(await store.load_chain(CONVERSATION))
    payloads = {ref: await store.read_blob("tenant", ref) for ref in [_ref_of_large(links[3])]}
    return ImportedConversation(id=CONVERSATION, links=links, head=hash_link(links[-1])), payloads


def _ref_of_large(link: ChainLink) -> BlobRef:
    (ref,) = find_blob_refs(decode_record(link.record, link.seq))
    return ref


def _reader(payloads: dict[BlobRef, bytes]) -> ReadPayload:
    return payloads.__getitem__


def _place_nothing() -> None:
    return
