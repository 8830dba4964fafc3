"""All views of one conversation, folded together one entry at a time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MethodType
from typing import Final

import msgspec
from msgspec import field

from timeloom.core.blocks import BLOCK_CLASSES, AnyBlock
from timeloom.core.timeline import Entry, EntryError
from timeloom.core.view.artifacts import ArtifactsView
from timeloom.core.view.block_view import Fold
from timeloom.core.view.calls import CallsView
from timeloom.core.view.context.compactions import CompactionsView
from timeloom.core.view.context.cuts import CutsView
from timeloom.core.view.context.forgetting import ForgettingView
from timeloom.core.view.context.provider_caches import ProviderCachesView
from timeloom.core.view.context.row_tokens import RowTokens
from timeloom.core.view.context.token_calibration import TokenCalibrationView
from timeloom.core.view.context.visible import VisibleView
from timeloom.core.view.conversation import ConversationView
from timeloom.core.view.feedback import FeedbackView
from timeloom.core.view.forms import FormsView
from timeloom.core.view.live_events import LiveEventsView
from timeloom.core.view.native_tools import NativeToolsView
from timeloom.core.view.paths import PathsView
from timeloom.core.view.plans import PlansView
from timeloom.core.view.progress import ProgressView
from timeloom.core.view.repeated_calls import RepeatedCallsView
from timeloom.core.view.seen_addresses import SeenAddressesView
from timeloom.core.view.sources import SourcesView
from timeloom.core.view.spend import SpendView
from timeloom.core.view.text_origins import TextOriginsView
from timeloom.core.view.turns import TurnsView

VIEWS_VERSION: Final = "15"
"""The version of the folds. Snapshots of other versions are folded again, so increase it with every change of a fold; a
golden test fails if that is forgotten."""


class Views(msgspec.Struct):
    """All views of a conversation up to the entry `tail`; a pure fold over the log.

    Adding an entry costs the same regardless of the length of the conversation. The value is encoded with msgspec for
    snapshots.
    """

    tail: int = 0
    conversation: ConversationView = field(default_factory=ConversationView)
    visible: VisibleView = field(default_factory=VisibleView)
    turns: TurnsView = field(default_factory=TurnsView)
    calls: CallsView = field(default_factory=CallsView)
    cuts: CutsView = field(default_factory=CutsView)
    artifacts: ArtifactsView = field(default_factory=ArtifactsView)
    plans: PlansView = field(default_factory=PlansView)
    sources: SourcesView = field(default_factory=SourcesView)
    spend: SpendView = field(default_factory=SpendView)
    reported: TokenCalibrationView = field(default_factory=TokenCalibrationView)
    cached: ProviderCachesView = field(default_factory=ProviderCachesView)
    forgetting: ForgettingView = field(default_factory=ForgettingView)
    compactions: CompactionsView = field(default_factory=CompactionsView)
    rows: RowTokens = field(default_factory=RowTokens)
    progress: ProgressView = field(default_factory=ProgressView)
    repeated: RepeatedCallsView = field(default_factory=RepeatedCallsView)
    live: LiveEventsView = field(default_factory=LiveEventsView)
    governance: TextOriginsView = field(default_factory=TextOriginsView)
    feedback: FeedbackView = field(default_factory=FeedbackView)
    forms: FormsView = field(default_factory=FormsView)
    native_tools: NativeToolsView = field(default_factory=NativeToolsView)
    addresses: SeenAddressesView = field(default_factory=SeenAddressesView)

    @property
    def paths(self) -> PathsView:
        """The entries at each path."""
        return self.visible.paths

    def add(self, entry: Entry) -> None:
        """Fold in the entry after `tail`; raises `EntryError` for any other entry."""
        if entry.seq != self.tail + 1:
            raise _order_error(self.tail, entry.seq)
        self.tail = entry.seq
        block = entry.block
        for name, fold_in in _FOLDS_OF[type(block)]:
            fold_in(getattr(self, name), entry, block)


def _find_folds(cls: type[AnyBlock]) -> tuple[tuple[str, Fold], ...]:
    """Return the views that a block of the class may change, in the order of their fields, each with its fold."""
    return tuple((one.name, one.type.folds[cls]) for one in _FIELDS if cls in one.type.folds)


_FIELDS: Final = tuple(one for one in msgspec.structs.fields(Views) if one.name != "tail")

_FOLDS_OF: Final = {cls: _find_folds(cls) for cls in BLOCK_CLASSES}
"""The folds of each block class: an entry is shown only to the views that it may change."""

_RESETS: Final = tuple((one.name, one.type.resets) for one in _FIELDS if one.type.resets)
"""The views that some block classes reset, with these classes."""

_SLICE_ENTRIES: Final = 50
"""Entries between two checks of which views fold them. Fewer cost more checks; with more, fewer are left out."""


def fold(entries: Iterable[Entry], views: Views | None = None) -> Views:
    """Return the views after these entries; the given views are updated in place."""
    views = views or Views()
    for _ in fold_in_slices(tuple(entries), views, _SLICE_ENTRIES):
        pass
    return views


def fold_in_slices(entries: Sequence[Entry], views: Views, size: int) -> Iterator[None]:
    """Fold the entries into the views and yield after each `size` of them; the views are complete at the end.

    A view that a later one of these entries resets does not fold the entries before: they would leave no trace.
    """
    starts = _find_starts(entries)
    bound = _BoundFolds(views)
    for at in range(0, len(entries), size):
        left_out = frozenset(name for name, start in starts.items() if start >= at + size)
        if left_out != bound.left_out:
            bound = _BoundFolds(views, left_out)
        for entry in entries[at : at + size]:
            if entry.seq != views.tail + 1:
                raise _order_error(views.tail, entry.seq)
            views.tail = entry.seq
            block = entry.block
            for fold_in in bound[type(block)]:
                fold_in(entry, block)
        yield


def _find_starts(entries: Sequence[Entry]) -> dict[str, int]:
    """Return the views that one of the entries resets, each with the place of the last such entry."""
    starts: dict[str, int] = {}
    for name, classes in _RESETS:
        place = next((at for at in range(len(entries) - 1, 0, -1) if type(entries[at].block) in classes), 0)
        if place:
            starts[name] = place
    return starts


class _BoundFolds(dict[type[AnyBlock], tuple[Callable[[Entry, AnyBlock], object], ...]]):
    """The folds of each block class as methods of the given views, without the views that are left out.

    Looking up the views for each entry would take a tenth of the time of a fold.
    """

    def __init__(self, views: Views, left_out: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self._views = views
        self.left_out = left_out

    def __missing__(self, cls: type[AnyBlock]) -> tuple[Callable[[Entry, AnyBlock], object], ...]:
        chosen = ((name, fold_in) for name, fold_in in _FOLDS_OF[cls] if name not in self.left_out)
        bound = self[cls] = tuple(MethodType(fold_in, getattr(self._views, name)) for name, fold_in in chosen)
        return bound


def _order_error(tail: int, seq: int) -> EntryError:
    return EntryError(f"the entry after {tail} was expected, got {seq}")
