"""Blocks of the stages around the loop in older logs, kept as they came."""

from typing import ClassVar

from timeloom.core.blocks.block import Block
from timeloom.core.payload import Text


class StageBlock(Block, frozen=True, kw_only=True):
    """What a stage said, as text of some MIME type."""

    text: Text = ""
    mime: str = "text/markdown"

    def mime_type(self) -> str:
        return self.mime


class StageGate(StageBlock, tag="stage.gate", frozen=True, kw_only=True):
    """What the gate stage said."""

    type_name: ClassVar[str] = "stage.gate"


class StageCoordinator(StageBlock, tag="stage.coordinator", frozen=True, kw_only=True):
    """What the coordinator stage said."""

    type_name: ClassVar[str] = "stage.coordinator"


class StageFeedback(StageBlock, tag="stage.feedback", frozen=True, kw_only=True):
    """What the feedback stage said."""

    type_name: ClassVar[str] = "stage.feedback"


class StageClarification(StageBlock, tag="stage.clarification", frozen=True, kw_only=True):
    """What the user was asked to make clear."""

    type_name: ClassVar[str] = "stage.clarification"


class StageClarificationResolved(StageBlock, tag="stage.clarification.resolved", frozen=True, kw_only=True):
    """What the user made clear."""

    type_name: ClassVar[str] = "stage.clarification.resolved"
