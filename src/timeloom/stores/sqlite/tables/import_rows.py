"""Inserts an imported conversation with its hash chain, and removes the files of imports that a crash cut off."""

import contextlib
import shutil
from pathlib import Path
from typing import Final

from timeloom.core.ids import IdError, parse_conversation_id
from timeloom.ports.importer import IMPORT_FOLDER, PLACED_FILE
from timeloom.stores.batch import open_work_after, record_crc
from timeloom.stores.blob_folder import BlobFolder, StagedPayloads
from timeloom.stores.import_batch import ImportBatch, existing_error
from timeloom.stores.sqlite.database import Database
from timeloom.stores.sqlite.tables.append_delete import (
    ConversationRow,
    create_row,
    find_conversation,
    place_before,
    store_notes,
    store_payloads,
)
from timeloom.wire.record import RECORD_VERSION

WORKSPACES: Final = "workspaces"
"""Folder of a data folder with the files of conversations."""

HEADS: Final = "heads"
"""Folder of a data folder with the heads of conversations."""


def import_conversation(
    connection: Database, blobs: BlobFolder, imported: ImportBatch, staged: StagedPayloads
) -> ConversationRow:
    """Insert the conversation and return its row; raises `conversation_exists`."""
    batch = imported.batch
    if find_conversation(connection, batch.conversation):
        raise existing_error(batch.conversation)
    created = create_row(connection, batch)
    place = place_before(created.number)
    rows = [
        (
            place | link.seq,
            RECORD_VERSION,
            record_crc(batch.conversation, link.seq, link.record),
            link.record,
            link.salt or None,
            link.before or None,
            link.content or None,
        )
        for link in imported.links
    ]
    sql = "INSERT INTO entries(place, form, crc, record, salt, before, content) VALUES (?, ?, ?, ?, ?, ?, ?)"
    connection.executemany(sql, rows)
    head, open_turn = imported.head or None, open_work_after(None, batch.entries)
    connection.execute(
        "UPDATE conversations SET tail = ?, last_ts = ?, head = ?, open_turn = ?, title = ? WHERE n = ?",
        (batch.tail, batch.last_ts, head, open_turn, imported.erased_title, created.number),
    )
    store_payloads(connection, blobs, created, batch, staged)
    appended = created._replace(tail=batch.tail, head=head, open_turn=open_turn)
    return store_notes(connection, appended, batch)


def clear_imports(data_dir: Path, connection: Database) -> None:
    """Remove what imports that did not finish have staged or placed. Call it only when no other store is open here."""
    for placed in (data_dir / IMPORT_FOLDER).glob(f"*/{PLACED_FILE}"):
        with contextlib.suppress(OSError, IdError, UnicodeDecodeError):
            conversation = parse_conversation_id(placed.read_text(encoding="ascii"))
            if not find_conversation(connection, conversation):
                shutil.rmtree(data_dir / WORKSPACES / conversation, ignore_errors=True)
                (data_dir / HEADS / f"{conversation}.jsonl").unlink(missing_ok=True)
    shutil.rmtree(data_dir / IMPORT_FOLDER, ignore_errors=True)
