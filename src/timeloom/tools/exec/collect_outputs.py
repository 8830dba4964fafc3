"""Produced files: what is kept of a program's leavings, copied into the workspace."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from timeloom.core.blocks.digest import Visibility
from timeloom.core.codes import CodedError
from timeloom.core.paths import PhysicalPath
from timeloom.ports.tool import Artifact, ToolContext
from timeloom.tools.exec.content import content_of, named_only
from timeloom.tools.exec.contract import Declared
from timeloom.tools.exec.output_folder import Given, Left, Refusal, leavings, read_left, size_left
from timeloom.tools.exec.settings import ExecSettings
from timeloom.tools.react.write import sources_cited
from timeloom.tools.workspace import MAX_FILE_BYTES, Workspace

NOT_PRODUCED: Final = "file not produced"


class Moved(msgspec.Struct, frozen=True):
    """A file that lay elsewhere than where it is kept."""

    place: str
    target: str


class Produced(msgspec.Struct, kw_only=True):
    """What is kept, the files of the contract first and in its order, and what is not."""

    artifacts: list[Artifact] = []
    declared: list[str] = []
    extra: list[str] = []
    errors: list[Refusal] = []
    """Of the contract."""
    refused: list[Refusal] = []
    moved: list[Moved] = []
    complete: bool = True


class Collecting:
    """One program's files on their way into the workspace; it blocks, so it is done in a thread."""

    def __init__(self, root: Path, given: Mapping[str, Given], context: ToolContext, settings: ExecSettings) -> None:
        self._root, self._given, self._settings = root, given, settings
        self._workspace = Workspace(context.out_dir)
        self._turn = context.turn_id
        self._pool = context.timeline.views.sources.pool
        self._produced = Produced()
        self._bytes = 0
        self._shown_bytes = 0

    def collect(self, contract: Sequence[Declared]) -> Produced:
        """Copies what may be kept."""
        found, produced = leavings(self._root, self._turn), self._produced
        produced.refused, produced.complete = found.refused, found.complete
        by_target: dict[PhysicalPath, Left] = {}
        for left in found.files:
            # Those in the right place come first; one that was there before the program began gives way.
            if left.target not in by_target or self._is_as_it_was(by_target[left.target]):
                by_target[left.target] = left
            else:
                produced.refused.append(Refusal(left.place, f"another file is kept as {left.target}"))
        for declared in contract:
            self._take_declared(declared, by_target.pop(declared.physical, None))
        for left in by_target.values():
            self._take_extra(left)
        return produced

    def _take_declared(self, declared: Declared, left: Left | None) -> None:
        name = str(declared.physical)
        try:
            if left is None:
                raise CodedError("missing_artifact", NOT_PRODUCED)
            self._keep(left, self._read(left), declared.visibility)
        except CodedError as error:
            self._produced.errors.append(Refusal(name, str(error)))
        else:
            self._produced.declared.append(name)

    def _take_extra(self, left: Left) -> None:
        if self._is_as_it_was(left):
            return
        try:
            self._keep(left, self._read(left), "internal")
        except CodedError as error:
            self._produced.refused.append(Refusal(left.place, str(error)))
        else:
            self._produced.extra.append(str(left.target))

    def _is_as_it_was(self, left: Left) -> bool:
        """Whether the program left the file as it was given it; what has another size is not read for that."""
        given = self._given.get(left.place)
        try:
            if given is None or size_left(self._root, left) != given.size:
                return False
            return given.is_like(read_left(self._root, left))
        except CodedError:
            return False

    def _read(self, left: Left) -> bytes:
        """What the file holds, where it can still be kept: a file costs a program nothing to make, and us to read."""
        settings = self._settings
        room = settings.kept_bytes - self._bytes
        if len(self._produced.artifacts) >= settings.kept_files or room < size_left(self._root, left) <= MAX_FILE_BYTES:
            most = f"{settings.kept_files} files and {settings.kept_bytes} bytes"
            raise CodedError("tool_result_too_large", f"of one program at most {most} are kept")
        return read_left(self._root, left)

    def _keep(self, left: Left, data: bytes, visibility: Visibility) -> None:
        if not left.writable:
            raise CodedError("path_read_only", "an attachment cannot be changed; write to files/ of the current turn")
        self._workspace.write(left.target, data)
        self._bytes += len(data)
        self._produced.artifacts.append(self._artifact(left, data, visibility))
        if left.moved:
            self._produced.moved.append(Moved(left.place, str(left.target)))

    def _artifact(self, left: Left, data: bytes, visibility: Visibility) -> Artifact:
        content, path = content_of(str(left.target), data, self._settings), str(left.path)
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
            sources_used=sources_cited(text, self._pool) if text else (),
            size_bytes=len(data),
            write_warning=content.warning,
            shown=None if text is None or has_room else named_only(path, content.mime, text),
        )
