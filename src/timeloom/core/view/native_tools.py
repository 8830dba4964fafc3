"""The view of the functions that are pinned for a conversation's native tool calling."""

from typing import ClassVar

from timeloom.core.blocks import ModelCalled
from timeloom.core.payload import Text
from timeloom.core.timeline import Entry
from timeloom.core.view.block_view import BlockView, Folds


class NativeToolsView(BlockView):
    """The list of the first native call, which all later ones repeat: another list would end the provider's cache."""

    pinned: Text = ""

    def _add_call(self, _: Entry, block: ModelCalled) -> None:
        self.pinned = self.pinned or block.tools

    folds: ClassVar[Folds] = {ModelCalled: _add_call}
