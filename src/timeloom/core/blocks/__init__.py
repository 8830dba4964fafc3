"""Types of blocks that a timeline can hold, one family per module.

Reading order: `block` (the base class), `content`, `digest` and `tool_traits` (shared parts), then the families
`conversation`, `turn`, `user`, `round`, `channel`, `tool`, `gate`, `plan`, `assistant`, `forgetting`, `stage` and
`unknown`.
`caching` holds the cache values of model calls. `extract_payloads`, `redact` and `valid_text` transform blocks.
"""

from types import MappingProxyType
from typing import Final

from timeloom.core.blocks.assistant import Completion, ReactCompletion
from timeloom.core.blocks.block import Block, BlockError
from timeloom.core.blocks.channel import ChannelText
from timeloom.core.blocks.content import ContentBlock
from timeloom.core.blocks.conversation import (
    ConversationStarted,
    Erased,
    ErasedForm,
    ForkPoint,
    RangeSummary,
    SourcesAdded,
    Titled,
    WorkingSummary,
)
from timeloom.core.blocks.digest import Digest, Hosting, Shown, ToolError, make_tool_error
from timeloom.core.blocks.forgetting import CompactionEnded, CompactionRequested, Cut, Hidden, Pinned, Pruned
from timeloom.core.blocks.gate import ApprovalDecided, ApprovalRequested, Gate
from timeloom.core.blocks.plan import PlanAcknowledged, PlanRecorded, PlansCompacted, PlanSkeleton
from timeloom.core.blocks.round import ModelAnswered, ModelCalled, Note, Notes, RoundStarted, Thinking, Usage
from timeloom.core.blocks.stage import (
    StageBlock,
    StageClarification,
    StageClarificationResolved,
    StageCoordinator,
    StageFeedback,
    StageGate,
)
from timeloom.core.blocks.tool import Notice, ResultContent, ResultDigest, ResultStatus, ToolCall, ToolCode
from timeloom.core.blocks.tool_traits import ToolTraits
from timeloom.core.blocks.turn import AgentLogStarted, EndReason, TurnEnded, TurnStarted
from timeloom.core.blocks.unknown import Unknown
from timeloom.core.blocks.user import (
    Attachment,
    AttachmentMeta,
    ExternalEvent,
    Feedback,
    Followup,
    Steer,
    UserPrompt,
)

AnyBlock = (
    ConversationStarted
    | Titled
    | SourcesAdded
    | WorkingSummary
    | RangeSummary
    | Erased
    | TurnStarted
    | AgentLogStarted
    | TurnEnded
    | UserPrompt
    | AttachmentMeta
    | Attachment
    | Followup
    | Steer
    | ExternalEvent
    | Feedback
    | Completion
    | ReactCompletion
    | RoundStarted
    | ModelCalled
    | ModelAnswered
    | Thinking
    | Notes
    | Note
    | ChannelText
    | ToolCode
    | ToolCall
    | Notice
    | ResultDigest
    | ResultStatus
    | ResultContent
    | Gate
    | ApprovalRequested
    | ApprovalDecided
    | PlanRecorded
    | PlanAcknowledged
    | PlansCompacted
    | Hidden
    | Pruned
    | CompactionRequested
    | CompactionEnded
    | Pinned
    | StageGate
    | StageCoordinator
    | StageFeedback
    | StageClarification
    | StageClarificationResolved
    | Unknown
)
"""Union of all block classes; `match` on it and end with `assert_never`."""

BlockClasses = tuple[type[AnyBlock], ...]
"""A set of block classes, such as those that one view folds."""

BLOCK_CLASSES: Final[BlockClasses] = AnyBlock.__args__

BLOCK_TYPES: Final = MappingProxyType({cls.type_name: cls for cls in reversed(BLOCK_CLASSES) if cls is not Unknown})
"""First class of each `type` in the JSON form; for `react.tool.result`, which has three classes, `ResultDigest`."""

__all__ = [
    "BLOCK_CLASSES",
    "BLOCK_TYPES",
    "AgentLogStarted",
    "AnyBlock",
    "ApprovalDecided",
    "ApprovalRequested",
    "Attachment",
    "AttachmentMeta",
    "Block",
    "BlockClasses",
    "BlockError",
    "ChannelText",
    "CompactionEnded",
    "CompactionRequested",
    "Completion",
    "ContentBlock",
    "ConversationStarted",
    "Cut",
    "Digest",
    "EndReason",
    "Erased",
    "ErasedForm",
    "ExternalEvent",
    "Feedback",
    "Followup",
    "ForkPoint",
    "Gate",
    "Hidden",
    "Hosting",
    "ModelAnswered",
    "ModelCalled",
    "Note",
    "Notes",
    "Notice",
    "Pinned",
    "PlanAcknowledged",
    "PlanRecorded",
    "PlanSkeleton",
    "PlansCompacted",
    "Pruned",
    "RangeSummary",
    "ReactCompletion",
    "ResultContent",
    "ResultDigest",
    "ResultStatus",
    "RoundStarted",
    "Shown",
    "SourcesAdded",
    "StageBlock",
    "StageClarification",
    "StageClarificationResolved",
    "StageCoordinator",
    "StageFeedback",
    "StageGate",
    "Steer",
    "Thinking",
    "Titled",
    "ToolCall",
    "ToolCode",
    "ToolError",
    "ToolTraits",
    "TurnEnded",
    "TurnStarted",
    "Unknown",
    "Usage",
    "UserPrompt",
    "WorkingSummary",
    "make_tool_error",
]
