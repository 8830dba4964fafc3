"""SQL that takes a journal back to older versions of its schema."""

from typing import Final

UNDO_AFTER_FEEDBACK: Final = """
DROP TABLE spend;
DROP TABLE log_number;
DROP TABLE records;
DROP TABLE record_kinds;
ALTER TABLE entries DROP COLUMN salt;
ALTER TABLE entries DROP COLUMN before;
ALTER TABLE entries DROP COLUMN content;
ALTER TABLE conversations DROP COLUMN head;
"""
"""Undoes all migrations after `silent feedback`; the caller sets the version."""
