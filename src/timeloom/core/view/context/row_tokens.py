"""The view of pruned rounds: their tokens, those of the rows in their place, and those that were read again."""

from typing import ClassVar, Final

import msgspec

from timeloom.core.blocks import Pruned, ResultContent, ToolCall
from timeloom.core.ids import CallId
from timeloom.core.timeline import Entry
from timeloom.core.view.block_view import BlockView, Folds

MAX_READING_CALLS: Final = 8
"""Calls that read and may have no result yet; a reply rarely has more."""

_PRUNABLE: Final = ("tc:", "fi:")
"""Paths of results and files. Indexes, sources and skills are not pruned, but read all the same."""


class RowTokens(BlockView, msgspec.Struct):
    """The tokens of pruned rounds and of the rows in their place, summed over the newest prunes.

    Older prunes count less: a conversation may change from small calls to large ones. After the first prune, what a
    call reads by its path counts as read again, because reading skips what the prompt shows.
    """

    rounds: int = 0
    rows: int = 0
    read_again: int = 0
    reading: tuple[CallId, ...] = ()
    """The newest calls that read by path."""

    def _add_pruning(self, _: Entry, block: Pruned) -> None:
        if block.round_tokens:
            self.rounds = self.rounds // 2 + block.round_tokens
            self.rows = self.rows // 2 + block.row_tokens
            self.read_again //= 2

    def _add_call(self, _: Entry, block: ToolCall) -> None:
        if self.rounds and block.known_traits.reads_artifacts:
            self.reading = (*self.reading, block.tool_call_id)[-MAX_READING_CALLS:]

    def _add_content(self, _: Entry, block: ResultContent) -> None:
        if block.shown and block.tool_call_id in self.reading and block.artifact_path.startswith(_PRUNABLE):
            self.read_again += block.shown.tokens

    folds: ClassVar[Folds] = {Pruned: _add_pruning, ToolCall: _add_call, ResultContent: _add_content}
