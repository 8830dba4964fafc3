"""Copies the files that a program produced into the workspace."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import Digest
from timeloom.core.blocks.digest import Visibility
from timeloom.core.codes import CodedError
from timeloom.core.paths import PathError, PhysicalPath, to_logical
from timeloom.ports.tool import Artifact, TimelineReader, ToolContext
from timeloom.tools.artifacts import find_digest
from timeloom.tools.exec.content import make_stub, to_timeline_content
from timeloom.tools.exec.contract import DeclaredFile
from timeloom.tools.exec.output_folder import (
    InputFingerprint,
    OutputFile,
    RefusedFile,
    output_size,
    read_output,
    scan_output_folder,
)
from timeloom.tools.exec.settings import ExecSettings
from timeloom.tools.react.write import find_cited_sources
from timeloom.tools.shown_names import shown_path, shown_place
from timeloom.tools.workspace import MAX_FILE_BYTES, Workspace

NOT_PRODUCED: Final = "file not produced"


class MovedFile(msgspec.Struct, frozen=True):
    """A file that is kept at another path than the one where the program wrote it."""

    source_path: str
    target: str


class CollectedFiles(msgspec.Struct, kw_only=True):
    """The kept files, those of the contract first and in its order, and the files that were not kept."""

    artifacts: list[Artifact] = []
    declared: list[str] = []
    extra: list[str] = []
    """Files that the contract does not name; users cannot see them."""
    edited: list[str] = []
    """Files that the contract does not name and that users could see before; they still can."""
    errors: list[RefusedFile] = []
    """Files of the contract that were not kept."""
    refused: list[RefusedFile] = []
    moved: list[MovedFile] = []
    complete: bool = True


async def keep_visibility(collected: CollectedFiles, context: ToolContext) -> None:
    """Give the files that the contract does not name the visibility, kind and channel of their earlier version."""
    sources = {moved.target: moved.source_path for moved in collected.moved}
    extra = set(collected.extra)
    for at, artifact in enumerate(collected.artifacts):
        name = artifact.physical_path
        if name not in extra:
            continue
        earlier = await _find_earlier_digest(name, sources.get(name, name), context.timeline)
        if earlier and earlier.visibility:
            collected.artifacts[at] = replace(
                artifact, visibility=earlier.visibility, kind=earlier.kind or artifact.kind, channel=earlier.channel
            )
            if earlier.visibility == "external":
                collected.extra.remove(name)
                collected.edited.append(name)


async def _find_earlier_digest(target: str, source: str, timeline: TimelineReader) -> Digest | None:
    """Return the metadata of the file at its path, else at the path of the other turn where the program changed it."""
    for place in dict.fromkeys((target, source)):
        try:
            path = to_logical(place)
        except PathError:
            # The program wrote the file outside the folders of turns, so it is new.
            continue
        if digest := await find_digest(path, timeline):
            return digest
    return None


class OutputCollector:
    """Copies the files of one program into the workspace. It blocks, so it runs in a thread."""

    def __init__(
        self,
        root: Path,
        given: Mapping[str, InputFingerprint],
        links: Mapping[str, str],
        context: ToolContext,
        settings: ExecSettings,
    ) -> None:
        self._root, self._given, self._links, self._settings = root, given, links, settings
        self._workspace = Workspace(context.out_dir)
        self._turn = context.turn_id
        self._views = context.timeline.views
        self._pool = self._views.sources.pool
        self._collected = CollectedFiles()
        self._bytes = 0
        self._shown_bytes = 0

    def collect(self, contract: Sequence[DeclaredFile]) -> CollectedFiles:
        """Copy the files that may be kept and return the result."""
        found, produced = scan_output_folder(self._root, self._turn, self._views, self._links), self._collected
        produced.refused, produced.complete = found.refused, found.complete
        by_target: dict[PhysicalPath, OutputFile] = {}
        for left in found.files:
            if left.is_moved and self._is_unchanged_input(left):
                continue
            # Files in the right place come first; a file that the program did not change gives way to a new one.
            if left.target not in by_target or self._is_unchanged_input(by_target[left.target]):
                by_target[left.target] = left
            else:
                kept = shown_place(str(left.target), self._views)
                produced.refused.append(RefusedFile(left.source_path, f"another file is kept as {kept}"))
        for declared in contract:
            self._collect_declared(declared, by_target.pop(declared.physical, None))
        for left in by_target.values():
            self._collect_extra(left)
        return produced

    def _collect_declared(self, declared: DeclaredFile, left: OutputFile | None) -> None:
        name = str(declared.physical)
        try:
            if left is None:
                raise CodedError("missing_artifact", NOT_PRODUCED)
            self._keep_file(left, self._read(left), declared.visibility)
        except CodedError as error:
            self._collected.errors.append(RefusedFile(name, str(error)))
        else:
            self._collected.declared.append(name)

    def _collect_extra(self, left: OutputFile) -> None:
        if self._is_unchanged_input(left):
            return
        try:
            self._keep_file(left, self._read(left), "internal")
        except CodedError as error:
            self._collected.refused.append(RefusedFile(left.source_path, str(error)))
        else:
            self._collected.extra.append(str(left.target))

    def _is_unchanged_input(self, left: OutputFile) -> bool:
        """Return whether the file equals the input of that path; a file of another size is not read."""
        given = self._given.get(left.source_path)
        try:
            if given is None or output_size(self._root, left) != given.size:
                return False
            return given.matches(read_output(self._root, left))
        except CodedError:
            return False

    def _read(self, left: OutputFile) -> bytes:
        """Return the content of the file if the limits allow it to be kept.

        Limits are checked before reading: a program creates files cheaply, but reading them is expensive.
        """
        settings = self._settings
        room = settings.kept_bytes - self._bytes
        if (
            len(self._collected.artifacts) >= settings.kept_files
            or room < output_size(self._root, left) <= MAX_FILE_BYTES
        ):
            most = f"{settings.kept_files} files and {settings.kept_bytes} bytes"
            raise CodedError("tool_result_too_large", f"of one program at most {most} are kept")
        return read_output(self._root, left)

    def _keep_file(self, left: OutputFile, data: bytes, visibility: Visibility) -> None:
        if not left.writable:
            raise CodedError("path_read_only", "an attachment cannot be changed; write to files/ of the current turn")
        self._workspace.write(left.target, data)
        self._bytes += len(data)
        self._collected.artifacts.append(self._to_artifact(left, data, visibility))
        if left.is_moved:
            self._collected.moved.append(MovedFile(left.source_path, str(left.target)))

    def _to_artifact(self, left: OutputFile, data: bytes, visibility: Visibility) -> Artifact:
        content, path = to_timeline_content(str(left.target), data, self._settings), str(left.path)
        text = content.text
        self._shown_bytes += len(text) if text else 0
        has_room = self._shown_bytes <= self._settings.shown_bytes
        return Artifact(
            path=path,
            mime=content.mime,
            text=text,
            data=content.data,
            kind="file",
            visibility=visibility,
            physical_path=str(left.target),
            sources_used=find_cited_sources(text, self._pool) if text else (),
            size_bytes=len(data),
            write_warning=content.warning,
            shown=None if text is None or has_room else make_stub(shown_path(path, self._views), content.mime, text),
        )
