"""Search: pages of conversations, newest first, narrowed by whose they are and by words they contain."""

from collections.abc import Sequence

import apsw
import msgspec

from timeloom.core.ids import ConversationId
from timeloom.ports.reader import ConversationInfo, ConversationPage, ConversationQuery, ConversationUnknownError
from timeloom.stores.search_terms import QUERY_CHARS, QUERY_WORDS, cursor_of, page_size, read_cursor, storable
from timeloom.stores.sqlite.database import Database, Values, typed

COLUMNS = "id, tenant, project, user, bundle, title, parent, started_ts, last_ts, tail"
"""What a list shows of a conversation."""


def read_info(connection: Database, conversation: ConversationId) -> ConversationInfo | None:
    """What a list shows of the conversation, if it is there."""
    sql = f"SELECT {COLUMNS} FROM conversations WHERE id = ?"
    row = connection.execute(sql, (storable(conversation),)).fetchone()
    return info_of(row) if row else None


def need_info(connection: Database, conversation: ConversationId) -> ConversationInfo:
    """What a list shows of the conversation; raises `ConversationUnknownError`."""
    info = read_info(connection, conversation)
    if info is None:
        raise ConversationUnknownError(conversation)
    return info


def read_ids(connection: Database, after: str, limit: int) -> list[ConversationId]:
    """The ids that follow, in order, whosever they are."""
    sql = "SELECT id FROM conversations WHERE id > ? ORDER BY id LIMIT ?"
    return [ConversationId(str(row[0])) for row in connection.execute(sql, (storable(after), limit))]


def read_page(connection: Database, query: ConversationQuery) -> ConversationPage:
    """One page of the conversations that match."""
    size = page_size(query.limit)
    conditions, values = ["tenant = ?"], [storable(query.tenant)]
    for column, wanted in (("project", query.project), ("user", query.user)):
        if wanted:
            conditions.append(f"{column} = ?")
            values.append(storable(wanted))
    if query.cursor:
        conditions.append("(last_ts, id) < (?, ?)")
        values += read_cursor(query.cursor)
    if query.words.strip():
        words = _words(connection, query.words)
        if not words:
            return ConversationPage(())
        conditions += ["n IN (SELECT rowid >> 32 FROM said WHERE said MATCH ?)"] * len(words)
        values += words
    where = " AND ".join(conditions)
    sql = f"SELECT {COLUMNS} FROM conversations WHERE {where} ORDER BY last_ts DESC, id DESC LIMIT ?"
    found = [info_of(row) for row in connection.execute(sql, (*values, size + 1))]
    return ConversationPage(tuple(found[:size]), cursor_of(found[size - 1]) if len(found) > size else "")


def read_said(connection: Database, conversation: ConversationId, words: str, limit: int) -> list[int]:
    """The seqs of what was said in the conversation with any of the words, newest first."""
    row = connection.execute("SELECT n FROM conversations WHERE id = ?", (storable(conversation),)).fetchone()
    if row is None:
        raise ConversationUnknownError(conversation)
    wanted = _words(connection, words)
    if not wanted:
        return []
    (number,), last = msgspec.convert(row, tuple[int]), 0xFFFF_FFFF
    sql = "SELECT rowid & ? FROM said WHERE said MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT ?"
    span = (number << 32, number << 32 | last)
    rows = connection.execute(sql, (last, " OR ".join(wanted), *span, page_size(limit))).fetchall()
    return [seq for (seq,) in typed(rows, tuple[int])]


def info_of(row: Values) -> ConversationInfo:
    """What a list shows of the conversation whose columns these are."""
    return msgspec.convert(dict(zip(COLUMNS.split(", "), row, strict=True)), ConversationInfo)


def _words(connection: Database, text: str) -> Sequence[str]:
    """Each word as FTS5 understands it: split by its own tokenizer, quoted, and open at its end."""
    tokenize = connection.fts5_tokenizer("unicode61", ["remove_diacritics", "2"])
    data = storable(text[:QUERY_CHARS]).encode()
    tokens = tokenize(data, apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False, include_colocated=False)
    words = dict.fromkeys(tokens)
    return [f'"{word}"*' for word in list(words)[:QUERY_WORDS]]
