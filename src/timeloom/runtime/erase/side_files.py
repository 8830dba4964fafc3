"""Erases a conversation's texts from files beside the store: the chat history and the demo's exports."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from timeloom.core.blocks import Followup, Steer, UserPrompt
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry
from timeloom.ports.store import Store
from timeloom.runtime.erase.same_text import load_entry_texts

HISTORY_FILE: Final = "chat_history"
"""The file in the data directory with the input history of terminal chats."""

EXPORTS_FOLDER: Final = "export"
"""The folder in the data directory where `timeloom demo` writes its exports."""

PAGE: Final = 500


def erase_side_files(data_dir: Path, conversation: ConversationId, user_texts: Iterable[str]) -> None:
    """Remove the conversation's exports, and these texts from the input history of the terminal."""
    _remove_from_history(data_dir / HISTORY_FILE, user_texts)
    shutil.rmtree(data_dir / EXPORTS_FOLDER / conversation, ignore_errors=True)


async def load_user_texts(store: Store, conversation: ConversationId) -> tuple[str, ...]:
    """Return all texts that users wrote in the conversation."""
    tenant, seq = (await store.info(conversation)).tenant, 0
    typed: list[Entry] = []
    while page := await store.load(conversation, after=seq, limit=PAGE):
        typed += [entry for entry in page if isinstance(entry.block, UserPrompt | Followup | Steer)]
        seq = page[-1].seq
    return await load_entry_texts(store, tenant, typed)


def _remove_from_history(history: Path, user_texts: Iterable[str]) -> None:
    erased = {" ".join(text.split()) for text in user_texts}
    if not history.exists() or not erased:
        return
    lines = history.read_text(encoding="utf-8", errors="replace").split("\n")
    kept = [line for chunk in _history_items(lines) if _item_text(chunk) not in erased for line in chunk]
    fresh = history.with_name(f"{HISTORY_FILE}.part")
    fresh.touch(mode=0o600)
    fresh.write_text("\n".join(kept), encoding="utf-8")
    fresh.replace(history)


def _history_items(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield each history item: a line with the time, then the typed lines, each prefixed with a plus."""
    chunk: list[str] = []
    for line in lines:
        if line.startswith("#") and chunk:
            yield chunk
            chunk = []
        chunk.append(line)
    yield chunk


def _item_text(chunk: Iterable[str]) -> str:
    return " ".join(" ".join(line[1:] for line in chunk if line.startswith("+")).split())
