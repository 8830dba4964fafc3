"""Blocks of the stages around the loop in older logs; timeloom keeps them unchanged."""

from typing import ClassVar

from timeloom.core.blocks.block import Block
from timeloom.core.payload import Text


class StageBlock(Block, frozen=True, kw_only=True):
    """Output of a stage, as text of any MIME type."""

    text: Text = ""
    mime: str = "text/markdown"

    def mime_type(self) -> str:
        return self.mime


class StageGate(StageBlock, tag="stage.gate", frozen=True, kw_only=True):
    """Output of the gate stage."""

    type_name: ClassVar[str] = "stage.gate"


class StageCoordinator(StageBlock, tag="stage.coordinator", frozen=True, kw_only=True):
    """Output of the coordinator stage."""

    type_name: ClassVar[str] = "stage.coordinator"


class StageFeedback(StageBlock, tag="stage.feedback", frozen=True, kw_only=True):
    """Output of the feedback stage."""

    type_name: ClassVar[str] = "stage.feedback"


class StageClarification(StageBlock, tag="stage.clarification", frozen=True, kw_only=True):
    """A question to the user for clarification."""

    type_name: ClassVar[str] = "stage.clarification"


class StageClarificationResolved(StageBlock, tag="stage.clarification.resolved", frozen=True, kw_only=True):
    """The user's clarification."""

    type_name: ClassVar[str] = "stage.clarification.resolved"
