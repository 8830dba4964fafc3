"""The tool `react.pull`: copies files of the conversation into the workspace for programs to read."""

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.paths import FileForm, PathError
from timeloom.core.paths.errors import quote_prefix
from timeloom.ports.tool import Outcome, ToolContext
from timeloom.tools.artifacts import is_editable, load_local_file
from timeloom.tools.react.select_files import MAX_SELECTED_FILES, select_files


class PulledFile(msgspec.Struct, frozen=True):
    """A file that is now in the workspace."""

    path: str
    physical_path: str
    mime: str
    size_bytes: int
    readonly: bool


class PullStatus(msgspec.Struct, kw_only=True):
    """The status of a pull; `reasons` gives the reason for each missing path."""

    pulled: list[PulledFile] = []
    missing: list[str] = []
    reasons: dict[str, str] = {}

    def add_missing(self, path: str, error: CodedError) -> None:
        """Record a path that could not be resolved."""
        self.missing.append(path)
        self.reasons[path] = f"{error.code}: {error}"


async def pull(context: ToolContext, paths: tuple[str, ...]) -> Outcome:
    """Bring files of earlier turns and attachments into the workspace, read-only, for programs. It shows no content.

    paths: fi: paths of files or folders, such as fi:t1/src/
    """
    status = PullStatus()
    for path in _select_paths(paths, context, status):
        try:
            file = await load_local_file(path, context)
        except CodedError as error:
            status.add_missing(str(path), error)
            continue
        readonly = not is_editable(path, context.turn_id)
        status.pulled.append(PulledFile(str(path), str(file.physical), file.mime, len(file.data), readonly))
    return Outcome(status=msgspec.json.encode(status).decode())


def _select_paths(paths: tuple[str, ...], context: ToolContext, status: PullStatus) -> list[FileForm]:
    found: dict[FileForm, None] = {}
    for text in paths:
        try:
            found |= dict.fromkeys(select_files(text, context.turn_id, context.timeline.views))
        except PathError as error:
            status.add_missing(quote_prefix(text), error)
        except CodedError as error:
            status.add_missing(text, error)
    if not 0 < len(paths) <= MAX_SELECTED_FILES or len(found) > MAX_SELECTED_FILES:
        message = f"one call brings 1 to {MAX_SELECTED_FILES} files, got {max(len(paths), len(found))}"
        raise CodedError("tool_params_invalid", message)
    return list(found)
