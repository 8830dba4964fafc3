"""The view of a conversation's header, title and times."""

from typing import ClassVar

import msgspec

from timeloom.core.blocks import AnyBlock, ConversationStarted, Erased, Titled
from timeloom.core.timeline import Entry
from timeloom.core.view.block_view import BlockView, Folds, for_all_blocks


class ConversationView(BlockView, msgspec.Struct):
    """The header, the title, the first and the last timestamp, and the number of erasures."""

    header: ConversationStarted | None = None
    title: str = ""
    erased: int = 0
    started_ts: str = ""
    last_ts: str = ""

    def _add_time(self, entry: Entry, _: AnyBlock) -> None:
        self.last_ts = entry.ts
        if not self.started_ts:
            self.started_ts = entry.ts

    def _add_header(self, entry: Entry, header: ConversationStarted) -> None:
        self._add_time(entry, header)
        self.header = header

    def _add_title(self, entry: Entry, block: Titled) -> None:
        self._add_time(entry, block)
        self.title = block.text

    def _add_erasure(self, entry: Entry, block: Erased) -> None:
        self._add_time(entry, block)
        self.erased += 1

    folds: ClassVar[Folds] = {
        **for_all_blocks(_add_time),
        ConversationStarted: _add_header,
        Titled: _add_title,
        Erased: _add_erasure,
    }
