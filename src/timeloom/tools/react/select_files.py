"""Selects the files that a file or folder path names, from the files that the timeline knows."""

from typing import Final

from timeloom.core.ids import TurnId
from timeloom.core.paths import FileForm, PathError, parse_long
from timeloom.core.view.views import Views
from timeloom.tools.artifacts import ArtifactError
from timeloom.tools.react.resolve import to_logical_path
from timeloom.tools.shown_names import shown_path

MAX_SELECTED_FILES: Final = 100
"""Most files that one call copies. Fewer splits real projects; more makes a result that crowds the prompt."""

_PROBE: Final = "x"


def select_files(text: str, turn: TurnId, views: Views) -> tuple[FileForm, ...]:
    """Return the file, or the files of the folder, at a logical or physical path.

    A folder path ends with `/`, or files are known below it. A folder with more than `MAX_SELECTED_FILES` files is
    refused.
    """
    if text.endswith("/"):
        # Appending a name turns the folder into a path that is validated like any other.
        return _list_below(str(_parse_file(text + _PROBE, turn, views, newest=False)).removesuffix(_PROBE), views)
    path = _parse_file(text, turn, views)
    known = views.artifacts.artifacts
    if str(path) not in known and any(name.startswith(f"{path}/") for name in known):
        return _list_below(f"{path}/", views)
    return (path,)


def _parse_file(text: str, turn: TurnId, views: Views, *, newest: bool = True) -> FileForm:
    path = to_logical_path(text, turn, views, newest=newest)
    if not isinstance(path, FileForm):
        shown = shown_path(str(path), views)
        raise PathError("path_not_a_file", f"expected a file such as fi:turn_1.files/report.md, got {shown}")
    return path


def _list_below(prefix: str, views: Views) -> tuple[FileForm, ...]:
    names = [name for name in views.artifacts.artifacts if name.startswith(prefix)]
    if not names:
        raise ArtifactError("path_not_found", f"no file is known below {prefix}")
    if len(names) > MAX_SELECTED_FILES:
        message = f"{prefix} holds {len(names)} files; one call brings at most {MAX_SELECTED_FILES}, so name a part"
        raise ArtifactError("tool_params_invalid", message)
    return tuple(path for path in map(parse_long, names) if isinstance(path, FileForm))
