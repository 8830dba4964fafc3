"""The view of artifacts: files, results and attachments by path, with their versions."""

from typing import ClassVar

import msgspec

from timeloom.core.blocks import Attachment, AttachmentMeta, Digest, ResultContent, ResultDigest, ToolCall
from timeloom.core.ids import CallId, TurnId
from timeloom.core.timeline import Entry
from timeloom.core.view.block_view import BlockView, Folds


class ArtifactVersion(msgspec.Struct, gc=False):
    """The entries that one call or one upload wrote at a path: metadata and content."""

    tool_call_id: CallId | None
    digest_seq: int | None = None
    content_seqs: tuple[int, ...] = ()


class ArtifactHistory(msgspec.Struct, gc=False):
    """The versions of an artifact, oldest first, and its newest metadata."""

    versions: list[ArtifactVersion] = []
    by_call: dict[str, int] = {}
    """The index of each call's version."""
    digest: Digest | None = None

    @property
    def is_edited(self) -> bool:
        """Whether there is more than one version."""
        return len(self.versions) > 1

    @property
    def latest(self) -> ArtifactVersion:
        """The newest version, which the path names."""
        return self.versions[-1]


class ArtifactsView(BlockView, msgspec.Struct):
    """Every artifact by its logical path, in order of first appearance, including hidden ones."""

    artifacts: dict[str, ArtifactHistory] = {}
    reading_calls: dict[str, bool] = {}
    """The calls that show existing artifacts; their output at such a path is not a new version."""
    edit_seqs: dict[int, bool] = {}
    """The metadata entries of every version except the first of each artifact."""

    def is_reading(self, turn: TurnId, call_id: CallId) -> bool:
        """Whether that call only shows existing artifacts."""
        return f"{turn}.{call_id}" in self.reading_calls

    def _add_call(self, entry: Entry, block: ToolCall) -> None:
        if block.known_traits.reads_artifacts:
            self.reading_calls[_key(entry, block.tool_call_id)] = True

    def _add_result_digest(self, entry: Entry, block: ResultDigest) -> None:
        self._add_digest(entry, block.tool_call_id, block.digest)

    def _add_attachment_meta(self, entry: Entry, block: AttachmentMeta) -> None:
        self._add_digest(entry, None, block.digest)

    def _add_result_content(self, entry: Entry, block: ResultContent) -> None:
        self._add_content(entry, block.tool_call_id, block.artifact_path)

    def _add_attachment(self, entry: Entry, block: Attachment) -> None:
        self._add_content(entry, None, block.artifact_path)

    def _add_digest(self, entry: Entry, call_id: CallId | None, digest: Digest) -> None:
        version = self._version(entry, digest.artifact_path, call_id)
        if version is None:
            return
        version.digest_seq = entry.seq
        artifact = self.artifacts[digest.artifact_path]
        if version is artifact.latest:
            artifact.digest = digest
        if version is not artifact.versions[0]:
            self.edit_seqs[entry.seq] = True

    def _add_content(self, entry: Entry, call_id: CallId | None, path: str) -> None:
        version = self._version(entry, path, call_id)
        if version is not None:
            version.content_seqs += (entry.seq,)

    def _version(self, entry: Entry, path: str, call_id: CallId | None) -> ArtifactVersion | None:
        """Return the version that the call's blocks belong to, or None if the call only shows the artifact."""
        key = _key(entry, call_id)
        artifact = self.artifacts.get(path)
        if artifact is None:
            artifact = self.artifacts[path] = ArtifactHistory()
        elif key not in artifact.by_call and key in self.reading_calls:
            return None
        place = artifact.by_call.setdefault(key, len(artifact.versions))
        if place == len(artifact.versions):
            artifact.versions.append(ArtifactVersion(call_id))
        return artifact.versions[place]

    folds: ClassVar[Folds] = {
        ToolCall: _add_call,
        ResultDigest: _add_result_digest,
        AttachmentMeta: _add_attachment_meta,
        ResultContent: _add_result_content,
        Attachment: _add_attachment,
    }


def _key(entry: Entry, call_id: CallId | None) -> str:
    return f"{entry.turn_id}.{call_id or ''}"
