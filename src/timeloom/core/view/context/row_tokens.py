"""The view of the rows that replaced pruned rounds: how many tokens they have, and how many they replaced."""

from typing import ClassVar

import msgspec

from timeloom.core.blocks import Pruned
from timeloom.core.timeline import Entry
from timeloom.core.view.block_view import BlockView, Folds


class RowTokens(BlockView, msgspec.Struct):
    """The tokens of pruned rounds and of the rows in their place, summed over the newest prunes.

    Older prunes count less: a conversation may change from small calls to large ones.
    """

    rounds: int = 0
    rows: int = 0

    def _add_pruning(self, _: Entry, block: Pruned) -> None:
        if block.round_tokens:
            self.rounds = self.rounds // 2 + block.round_tokens
            self.rows = self.rows // 2 + block.row_tokens

    folds: ClassVar[Folds] = {Pruned: _add_pruning}
