"""Physical paths: where a file's logical path lies, relative to OUT_DIR."""

from typing import assert_never

import msgspec

from timeloom.core.ids import MessageId, TurnId
from timeloom.core.paths.errors import PathError, shown
from timeloom.core.paths.forms import AttachmentPath, EventAttachmentPath, FileForm, FilePath, LogicalPath
from timeloom.core.paths.names import check_names
from timeloom.core.paths.parse_path import check_length


class PhysicalPath(msgspec.Struct, frozen=True):
    """A place relative to OUT_DIR that some `fi:` path has."""

    text: str

    def __post_init__(self) -> None:
        logical(self.text)

    def __str__(self) -> str:
        return self.text

    @property
    def names(self) -> tuple[str, ...]:
        """The folders on the way and then the file, none of them special."""
        return tuple(self.text.split("/"))


def physical(path: LogicalPath) -> PhysicalPath:
    """The file's place relative to OUT_DIR; raises for a path that is not `fi:`."""
    if not isinstance(path, FileForm):
        raise PathError("path_not_a_file", f"only fi: paths lie in a folder, got {shown(str(path))}")
    match path:
        case FilePath(turn, area, rel):
            return PhysicalPath(f"{turn}/{area}/{rel}")
        case AttachmentPath(turn, name):
            return PhysicalPath(f"{turn}/attachments/{name}")
        case EventAttachmentPath(turn, kind, message, name):
            return PhysicalPath(f"{turn}/external/{kind}/attachments/{message}/{name}")
        case _:
            assert_never(path)


def logical(physical_text: str) -> FileForm:
    """The logical path of what lies there; the reverse of `physical`."""
    check_length(physical_text)
    check_names(physical_text)
    turn, *names = physical_text.split("/")
    match names:
        case [("files" | "outputs") as area, *rel]:
            return FilePath(TurnId(turn), area, "/".join(rel))
        case ["attachments", name]:
            return AttachmentPath(TurnId(turn), name)
        case ["external", kind, "attachments", message, name]:
            return EventAttachmentPath(TurnId(turn), kind, MessageId(message), name)
        case _:
            raise PathError(
                "path_malformed",
                "a physical path is <turn>/files/<rel>, <turn>/outputs/<rel>, <turn>/attachments/<name> "
                f"or <turn>/external/<kind>/attachments/<message_id>/<name>; got {shown(physical_text)}",
            )
