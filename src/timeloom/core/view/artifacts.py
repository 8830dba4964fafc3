"""Artifacts: files, results and attachments by path, with their versions."""

from typing import Final

import msgspec

from timeloom.core.blocks import Attachment, AttachmentMeta, Digest, ResultContent, ResultDigest, ToolCall
from timeloom.core.ids import CallId
from timeloom.core.timeline import Entry

READING_TOOLS: Final = frozenset({"react.read", "react.pull"})
"""Tools that show an artifact again; what they emit at its path is no new version of it."""


class Version(msgspec.Struct, gc=False):
    """What one call, or one upload, left at a path: the seqs of its metadata and of its content."""

    tool_call_id: CallId | None
    digest_seq: int | None = None
    content_seqs: list[int] = []


class Artifact(msgspec.Struct, gc=False):
    """An artifact's versions, oldest first, and what its newest metadata says of it."""

    versions: list[Version]
    digest: Digest | None = None

    @property
    def edited(self) -> bool:
        """Whether an earlier version exists."""
        return len(self.versions) > 1

    @property
    def latest(self) -> Version:
        """The version that the path means."""
        return self.versions[-1]


class ArtifactsView(msgspec.Struct):
    """Every artifact by its logical path, in the order they were first heard of; hidden or not."""

    artifacts: dict[str, Artifact] = {}
    reading_calls: dict[CallId, bool] = {}
    edit_seqs: dict[int, bool] = {}
    """The metadata entries of every version but the first of its artifact."""

    def add(self, entry: Entry) -> None:
        """Takes in the next entry."""
        match entry.block:
            case ToolCall(tool_id=tool_id, tool_call_id=call_id):
                if tool_id in READING_TOOLS:
                    self.reading_calls[call_id] = True
            case ResultDigest(tool_call_id=call_id, digest=digest):
                self._add_digest(entry.seq, call_id, digest)
            case AttachmentMeta(digest=digest):
                self._add_digest(entry.seq, None, digest)
            case ResultContent(tool_call_id=call_id, artifact_path=path):
                self._add_content(entry.seq, call_id, path)
            case Attachment(artifact_path=path):
                self._add_content(entry.seq, None, path)
            case _:
                pass

    def _add_digest(self, seq: int, call_id: CallId | None, digest: Digest) -> None:
        if self._is_reading(call_id, digest.artifact_path):
            return
        self._version(digest.artifact_path, call_id).digest_seq = seq
        artifact = self.artifacts[digest.artifact_path]
        artifact.digest = digest
        if artifact.edited:
            self.edit_seqs[seq] = True

    def _add_content(self, seq: int, call_id: CallId | None, path: str) -> None:
        if not self._is_reading(call_id, path):
            self._version(path, call_id).content_seqs.append(seq)

    def _is_reading(self, call_id: CallId | None, path: str) -> bool:
        return call_id in self.reading_calls and path in self.artifacts

    def _version(self, path: str, call_id: CallId | None) -> Version:
        artifact = self.artifacts.get(path)
        if artifact is None:
            artifact = self.artifacts[path] = Artifact([Version(call_id)])
        elif artifact.latest.tool_call_id != call_id:
            artifact.versions.append(Version(call_id))
        return artifact.latest
