"""SQL that takes a journal back to older versions of its schema."""

from typing import Final

UNDO_AFTER_FEEDBACK: Final = "DROP TABLE log_number;"
"""Undoes all migrations after `silent feedback`; the caller sets the version."""
