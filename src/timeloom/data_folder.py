"""The files that timeloom keeps in a data folder beside the store, and the erasers of their content.

The terminal writes its input history in the format of prompt_toolkit, and `timeloom demo` writes exports. The server
erases from both, because it may share the data folder with a terminal.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from timeloom.core.ids import ConversationId
from timeloom.runtime.erase.side_files import SideFileEraser

HISTORY_FILE: Final = "chat_history"
"""The name of the file with the input history of terminal chats."""


EXPORTS_FOLDER: Final = "export"
"""The folder in the data folder where `timeloom demo` writes its exports."""


def build_side_file_erasers(data_dir: Path) -> tuple[SideFileEraser, ...]:
    """Return the erasers of all side files of a data folder, for the command line and for the server."""

    def erase_history(_conversation: ConversationId, user_texts: Sequence[str]) -> None:
        erase_from_history(data_dir, user_texts)

    def erase_exports(conversation: ConversationId, _user_texts: Sequence[str]) -> None:
        shutil.rmtree(data_dir / EXPORTS_FOLDER / conversation, ignore_errors=True)

    return erase_history, erase_exports


def erase_from_history(data_dir: Path, user_texts: Iterable[str]) -> None:
    """Remove the items with these texts from the input history; spaces and line ends may differ."""
    history = data_dir / HISTORY_FILE
    erased = {" ".join(text.split()) for text in user_texts}
    if not history.exists() or not erased:
        return
    lines = history.read_text(encoding="utf-8", errors="replace").split("\n")
    kept = [line for item in _history_items(lines) if _item_text(item) not in erased for line in item]
    fresh = history.with_name(f"{HISTORY_FILE}.part")
    fresh.touch(mode=0o600)
    fresh.write_text("\n".join(kept), encoding="utf-8")
    fresh.replace(history)


def _history_items(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield each history item: a line with the time, then the typed lines, each prefixed with a plus."""
    item: list[str] = []
    for line in lines:
        if line.startswith("#") and item:
            yield item
            item = []
        item.append(line)
    yield item


def _item_text(item: Iterable[str]) -> str:
    return " ".join(" ".join(line[1:] for line in item if line.startswith("+")).split())
