"""Converts an imported conversation to the form that every store keeps."""

from dataclasses import dataclass

from timeloom.core.blocks import ConversationStarted, Titled
from timeloom.core.blocks.extract_payloads import find_blob_refs
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef, ref_of
from timeloom.ports.blobs import BlobError
from timeloom.ports.importer import ImportedConversation, ReadPayload
from timeloom.stores.batch import INDEXED_CHARS, TITLE_CHARS, Batch, searchable_text
from timeloom.wire.chain import ChainLink
from timeloom.wire.linked_entries import ArchiveError, decode_linked_entries


@dataclass(frozen=True, slots=True)
class ImportBatch:
    """The batch of all entries, the links that it keeps, and the title of the list if that was erased."""

    batch: Batch
    links: tuple[ChainLink, ...]
    head: bytes
    erased_title: str = ""


def make_import_batch(imported: ImportedConversation, read_payload: ReadPayload) -> ImportBatch:
    """Return the conversation as it will be stored, without payloads; raises as `Importer` promises."""
    entries = decode_linked_entries(imported.id, imported.links, imported.head, imported.heads)
    refs: dict[BlobRef, None] = {}
    searchable: list[tuple[int, str]] = []
    title: tuple[int, str] | None = None
    erased_title = ""
    for entry in entries:
        refs.update(dict.fromkeys(find_blob_refs(entry)))
        if isinstance(entry.block, Titled):
            text = entry.block.text
            title, erased_title = (None, text[:TITLE_CHARS]) if entry.block.erased else ((entry.seq, text), "")
        elif not entry.block.erased and (
            text := searchable_text(entry.block, lambda ref: read_import_payload(read_payload, ref).decode())
        ):
            searchable.append((entry.seq, text[:INDEXED_CHARS]))
    header = entries[0].block
    assert isinstance(header, ConversationStarted)
    batch = Batch(
        conversation=imported.id,
        expected_tail=0,
        entries=entries,
        records=tuple(link.record for link in imported.links),
        references=tuple(refs),
        searchable_texts=tuple(searchable),
        header=header,
        title=title and (title[0], title[1][:INDEXED_CHARS]),
    )
    return ImportBatch(batch, imported.links, imported.head, erased_title)


def read_import_payload(read_payload: ReadPayload, ref: BlobRef) -> bytes:
    """Return the payload after checking its hash."""
    data = read_payload(ref)
    if ref_of(data) != ref:
        raise BlobError("blob_damaged", f"payload {ref.sha256[:64]} has other bytes than its name says")
    return data


def existing_error(conversation: ConversationId) -> CodedError:
    """Return the error for a conversation that exists."""
    return CodedError(
        "conversation_exists",
        f"conversation {conversation} exists already; delete it first, or skip it with --skip-existing",
    )


__all__ = ["ArchiveError", "ImportBatch", "existing_error", "make_import_batch", "read_import_payload"]
