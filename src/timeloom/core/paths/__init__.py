"""Logical paths of everything on a timeline, the physical paths of files, and the checks that refuse unsafe names.

Reading order: `forms`, `selection` and `aliases` (the values), `parse_path`, `names` (safe file names), `physical`,
`rewrite` (paths given to tools), `resource` (names across conversations), `errors`.
"""

from timeloom.core.paths.aliases import AliasedPath, call_alias, make_alias, parse_turn_alias, turn_alias
from timeloom.core.paths.errors import PathError
from timeloom.core.paths.forms import (
    MAX_NUMBER,
    ArtifactPath,
    AttachmentPath,
    CallTextPath,
    CompletionPath,
    EventAttachmentPath,
    EventPath,
    FileForm,
    FilePath,
    KnowledgePath,
    LatestPlanPath,
    LogicalPath,
    PlanPath,
    RangeSummaryPath,
    RoundTextPath,
    SkillPath,
    ToolPath,
    TurnForm,
    TurnIndexPath,
    UserPromptPath,
    WorkingSummaryPath,
)
from timeloom.core.paths.names import MAX_NAME_BYTES, MAX_RELATIVE_BYTES, has_invisible_characters
from timeloom.core.paths.parse_path import MAX_PATH_CHARS, has_scheme, parse, parse_long
from timeloom.core.paths.physical import PhysicalPath, to_logical, to_physical
from timeloom.core.paths.resource import ResourceName, parse_resource
from timeloom.core.paths.rewrite import RewrittenPath, rewrite_path, strip_here
from timeloom.core.paths.selection import (
    MAX_SELECTED,
    MAX_SID,
    EntriesPath,
    SourcesPath,
    TurnIndexesPath,
    select_sources,
)

__all__ = [
    "MAX_NAME_BYTES",
    "MAX_NUMBER",
    "MAX_PATH_CHARS",
    "MAX_RELATIVE_BYTES",
    "MAX_SELECTED",
    "MAX_SID",
    "AliasedPath",
    "ArtifactPath",
    "AttachmentPath",
    "CallTextPath",
    "CompletionPath",
    "EntriesPath",
    "EventAttachmentPath",
    "EventPath",
    "FileForm",
    "FilePath",
    "KnowledgePath",
    "LatestPlanPath",
    "LogicalPath",
    "PathError",
    "PhysicalPath",
    "PlanPath",
    "RangeSummaryPath",
    "ResourceName",
    "RewrittenPath",
    "RoundTextPath",
    "SkillPath",
    "SourcesPath",
    "ToolPath",
    "TurnForm",
    "TurnIndexPath",
    "TurnIndexesPath",
    "UserPromptPath",
    "WorkingSummaryPath",
    "call_alias",
    "has_invisible_characters",
    "has_scheme",
    "make_alias",
    "parse",
    "parse_long",
    "parse_resource",
    "parse_turn_alias",
    "rewrite_path",
    "select_sources",
    "strip_here",
    "to_logical",
    "to_physical",
    "turn_alias",
]
