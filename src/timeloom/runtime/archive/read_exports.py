"""Reads exports in JSON (`conv.timeline.v1`), one object per line, as conversations to import."""

from collections.abc import Iterator
from typing import BinaryIO, Final

from timeloom.core.blocks import ConversationStarted
from timeloom.core.codes import CodedError
from timeloom.core.payload import BlobRef
from timeloom.ports.importer import ImportedConversation
from timeloom.runtime.archive.read_archive import FoundConversation
from timeloom.wire.exported_chain import RebuiltExport, rebuild_export
from timeloom.wire.linked_entries import ArchiveError, decode_linked_entries

MAX_EXPORT_BYTES: Final = 512 * 1024**2
"""Largest export of one conversation. It is parsed as a whole; an archive has no such limit."""


def iter_exports(file: BinaryIO) -> Iterator[FoundConversation]:
    """Yield the conversation of each line; raises `CodedError` at the first fault.

    An export has no heads and no workspace.
    """
    while line := file.readline(MAX_EXPORT_BYTES + 1):
        if len(line) > MAX_EXPORT_BYTES:
            raise CodedError(
                "file_too_large",
                f"an export in JSON has at most {MAX_EXPORT_BYTES} bytes; use `timeloom export --archive`",
            )
        if line.strip():
            yield _to_found(rebuild_export(line))


def _to_found(export: RebuiltExport) -> FoundConversation:
    entries = decode_linked_entries(export.conversation, export.links, export.head)
    header = entries[0].block
    assert isinstance(header, ConversationStarted)

    def read_payload(ref: BlobRef) -> bytes:
        if ref not in export.payloads:
            raise CodedError("blob_missing", f"payload {ref.sha256[:64]} is not in the export")
        return export.payloads[ref]

    return FoundConversation(
        imported=ImportedConversation(id=export.conversation, links=export.links, head=export.head),
        header=header,
        entries=entries,
        payloads=len(export.payloads),
        files=(),
        read_payload=read_payload,
        open_file=_no_file,
    )


def _no_file(_: int) -> Iterator[bytes]:
    raise ArchiveError("an export in JSON has no files")
