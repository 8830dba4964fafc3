"""Base class of blocks with a payload of any MIME type: text, bytes, or neither if the content is on disk."""

from timeloom.core.blocks.block import Block, BlockError, need_path, need_text
from timeloom.core.blocks.digest import Digest, Hosting, Shown
from timeloom.core.ids import TurnId
from timeloom.core.payload import Data, Text


class ContentBlock(Block, frozen=True, kw_only=True):
    """Content of one artifact, at the artifact's path."""

    artifact_path: str
    mime: str
    text: Text | None = None
    data: Data | None = None
    hosting: Hosting | None = None
    digest: Digest | None = None
    shown: Shown | None = None

    def __post_init__(self) -> None:
        need_path(self.artifact_path, "artifact_path")
        need_text(self.mime, "mime")
        if self.text is not None and self.data is not None:
            raise BlockError("content is text or bytes, not both")

    def mime_type(self) -> str:
        return self.mime

    def path(self, turn: TurnId) -> str:
        return self.artifact_path
