"""Base class of the views that fold only some block classes."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from timeloom.core.blocks import BLOCK_CLASSES, AnyBlock
from timeloom.core.timeline import Entry

Fold = Callable[[Any, Entry, Any], object]
"""A method of a view that folds in an entry; it gets the entry and its block."""

Folds = Mapping[type[AnyBlock], Fold]
"""The method for each block class that changes a view.

A lookup by class costs the same for all blocks. In a chain of class patterns, each pattern that does not match costs a
tenth of a microsecond, and these were most of the time of a fold.
"""


class BlockView(msgspec.Struct):
    """A view that only the block classes in `folds` change."""

    folds: ClassVar[Folds] = MappingProxyType({})
    resets: ClassVar[frozenset[type[AnyBlock]]] = frozenset()
    """Block classes after which the view does not depend on any earlier entry."""

    def add(self, entry: Entry) -> None:
        """Fold in the next entry."""
        if fold := self.folds.get(type(entry.block)):
            fold(self, entry, entry.block)


def for_all_blocks(fold: Fold) -> Folds:
    """Return the folds of a view that every block class may change."""
    return for_blocks(BLOCK_CLASSES, fold)


def for_blocks(classes: Iterable[type[AnyBlock]], fold: Fold) -> Folds:
    """Return the folds of these block classes."""
    return dict.fromkeys(classes, fold)
