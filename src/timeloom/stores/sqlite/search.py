"""Search: pages of conversations, newest first, narrowed by whose they are and by words they contain."""

from collections.abc import Sequence

import apsw
import msgspec

from timeloom.core.ids import ConversationId
from timeloom.ports.reader import ConversationInfo, ConversationPage, ConversationQuery, ConversationUnknownError
from timeloom.stores.sqlite.database import Database, Values
from timeloom.stores.words import QUERY_CHARS, QUERY_WORDS, cursor_of, page_size, read_cursor, storable

_COLUMNS = "id, tenant, project, user, bundle, title, parent, started_ts, last_ts, tail"


def read_info(connection: Database, conversation: ConversationId) -> ConversationInfo | None:
    """What a list shows of the conversation, if it is there."""
    sql = f"SELECT {_COLUMNS} FROM conversations WHERE id = ?"
    row = connection.execute(sql, (storable(conversation),)).fetchone()
    return _info(row) if row else None


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
    sql = f"SELECT {_COLUMNS} FROM conversations WHERE {where} ORDER BY last_ts DESC, id DESC LIMIT ?"
    found = [_info(row) for row in connection.execute(sql, (*values, size + 1))]
    return ConversationPage(tuple(found[:size]), cursor_of(found[size - 1]) if len(found) > size else "")


def _words(connection: Database, text: str) -> Sequence[str]:
    """Each word as FTS5 understands it: split by its own tokenizer, quoted, and open at its end."""
    tokenize = connection.fts5_tokenizer("unicode61", ["remove_diacritics", "2"])
    data = storable(text[:QUERY_CHARS]).encode()
    tokens = tokenize(data, apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False, include_colocated=False)
    words = dict.fromkeys(tokens)
    return [f'"{word}"*' for word in list(words)[:QUERY_WORDS]]


def _info(row: Values) -> ConversationInfo:
    return msgspec.convert(dict(zip(_COLUMNS.split(", "), row, strict=True)), ConversationInfo)
