"""The importer port: stores a conversation with the records and hashes that another store gave it."""

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef
from timeloom.wire.chain import ChainLink
from timeloom.wire.heads import Head

IMPORT_FOLDER: Final = "importing"
"""Folder of a data folder where imports stage files. The next program that opens the folder alone empties it."""

PLACED_FILE: Final = "placed"
"""File beside staged files with the id of the conversation to whose workspace they were moved."""

ReadPayload = Callable[[BlobRef], bytes]
"""Returns the bytes of a payload; runs in a thread."""


class ImportedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as another store has it."""

    id: ConversationId
    links: tuple[ChainLink, ...]
    """The links of all entries in order, each with its record."""
    head: bytes = b""
    """The hash of the last entry; empty in a conversation without a hash chain."""
    heads: tuple[Head, ...] = ()
    """The heads that were written at the ends of turns."""


class Importer(Protocol):
    """Stores imported conversations. Each numbered promise is checked by `timeloom.testing.store_contract`.

    1. The imported entries have the records, salts and hashes of the original. Erased entries stay erased.
    2. An import is stored completely or not at all. `place_files` runs last, before the import becomes durable; an
       error of it undoes the import.
    3. A conversation that exists is refused with `conversation_exists`, and one whose records or hashes do not fit
       with `chain_broken` or `archive_malformed`. Nothing is changed then.
    """

    async def import_conversation(
        self, imported: ImportedConversation, read_payload: ReadPayload, place_files: Callable[[], None]
    ) -> None:
        """Store the conversation with its payloads, which `read_payload` returns."""
        ...
