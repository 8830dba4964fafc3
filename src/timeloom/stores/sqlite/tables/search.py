"""Lists and searches conversations by tenant, project, user and words, newest first."""

from collections.abc import Sequence

import apsw
import msgspec

from timeloom.core.ids import ConversationId
from timeloom.ports.reader import ConversationInfo, ConversationPage, ConversationQuery, ConversationUnknownError
from timeloom.stores.search_terms import (
    QUERY_CHARS,
    QUERY_WORDS,
    clamp_page_size,
    cursor_after,
    parse_cursor,
    replace_surrogates,
)
from timeloom.stores.sqlite.database import Database, RowValues, convert_rows

INFO_COLUMNS = "id, tenant, project, user, bundle, title, parent, started_ts, last_ts, tail"
"""The columns of a conversation that a list shows, in the order of `info_from_row`."""


def read_info(connection: Database, conversation: ConversationId) -> ConversationInfo | None:
    """Return the list columns of the conversation; None if it does not exist."""
    sql = f"SELECT {INFO_COLUMNS} FROM conversations WHERE id = ?"
    row = connection.execute(sql, (replace_surrogates(conversation),)).fetchone()
    return info_from_row(row) if row else None


def get_info(connection: Database, conversation: ConversationId) -> ConversationInfo:
    """Return the list columns of the conversation; raises `ConversationUnknownError`."""
    info = read_info(connection, conversation)
    if info is None:
        raise ConversationUnknownError(conversation)
    return info


def read_ids(connection: Database, after: str, limit: int) -> list[ConversationId]:
    """Return conversation ids greater than `after`, of all tenants, in order."""
    sql = "SELECT id FROM conversations WHERE id > ? ORDER BY id LIMIT ?"
    return [ConversationId(str(row[0])) for row in connection.execute(sql, (replace_surrogates(after), limit))]


def read_idle(connection: Database, before: str, after: str, limit: int) -> list[ConversationInfo]:
    """Return conversations of all tenants whose last entry is older than that time, by id."""
    sql = f"SELECT {INFO_COLUMNS} FROM conversations WHERE last_ts < ? AND id > ? ORDER BY id LIMIT ?"
    rows = connection.execute(sql, (replace_surrogates(before), replace_surrogates(after), max(0, limit)))
    return [info_from_row(row) for row in rows]


def read_page(connection: Database, query: ConversationQuery) -> ConversationPage:
    """Return one page of the matching conversations."""
    size = clamp_page_size(query.limit)
    conditions, values = ["tenant = ?"], [replace_surrogates(query.tenant)]
    for column, wanted in (("project", query.project), ("user", query.user)):
        if wanted:
            conditions.append(f"{column} = ?")
            values.append(replace_surrogates(wanted))
    if query.cursor:
        conditions.append("(last_ts, id) < (?, ?)")
        values += parse_cursor(query.cursor)
    if query.words.strip():
        words = _fts_terms(connection, query.words)
        if not words:
            return ConversationPage(())
        conditions += ["n IN (SELECT rowid >> 32 FROM said WHERE said MATCH ?)"] * len(words)
        values += words
    where = " AND ".join(conditions)
    sql = f"SELECT {INFO_COLUMNS} FROM conversations WHERE {where} ORDER BY last_ts DESC, id DESC LIMIT ?"
    found = [info_from_row(row) for row in connection.execute(sql, (*values, size + 1))]
    return ConversationPage(tuple(found[:size]), cursor_after(found[size - 1]) if len(found) > size else "")


def read_matching_seqs(connection: Database, conversation: ConversationId, words: str, limit: int) -> list[int]:
    """Return the seqs of the messages in the conversation that contain any of the words, newest first."""
    row = connection.execute("SELECT n FROM conversations WHERE id = ?", (replace_surrogates(conversation),)).fetchone()
    if row is None:
        raise ConversationUnknownError(conversation)
    terms = _fts_terms(connection, words)
    if not terms:
        return []
    (number,), last = msgspec.convert(row, tuple[int]), 0xFFFF_FFFF
    sql = "SELECT rowid & ? FROM said WHERE said MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT ?"
    span = (number << 32, number << 32 | last)
    rows = connection.execute(sql, (last, " OR ".join(terms), *span, clamp_page_size(limit))).fetchall()
    return [seq for (seq,) in convert_rows(rows, tuple[int])]


def info_from_row(row: RowValues) -> ConversationInfo:
    """Return the list entry for a row with the columns of `INFO_COLUMNS`."""
    return msgspec.convert(dict(zip(INFO_COLUMNS.split(", "), row, strict=True)), ConversationInfo)


def _fts_terms(connection: Database, text: str) -> Sequence[str]:
    """Return the words as FTS5 prefix terms: split by its tokenizer and quoted."""
    tokenize = connection.fts5_tokenizer("unicode61", ["remove_diacritics", "2"])
    data = replace_surrogates(text[:QUERY_CHARS]).encode()
    tokens = tokenize(data, apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False, include_colocated=False)
    words = dict.fromkeys(tokens)
    return [f'"{word}"*' for word in list(words)[:QUERY_WORDS]]
