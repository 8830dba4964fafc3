"""Converts between logical file paths and physical paths relative to OUT_DIR."""

from typing import assert_never

import msgspec

from timeloom.core.ids import MessageId, TurnId
from timeloom.core.paths.errors import PathError, quote_prefix
from timeloom.core.paths.forms import AttachmentPath, EventAttachmentPath, FileForm, FilePath, LogicalPath
from timeloom.core.paths.names import check_names
from timeloom.core.paths.parse_path import check_length


class PhysicalPath(msgspec.Struct, frozen=True):
    """A path relative to OUT_DIR that belongs to some `fi:` path."""

    text: str

    def __post_init__(self) -> None:
        to_logical(self.text)

    def __str__(self) -> str:
        return self.text

    @property
    def names(self) -> tuple[str, ...]:
        """Folder names and the file name, in order; none is empty or special."""
        return tuple(self.text.split("/"))


def to_physical(path: LogicalPath) -> PhysicalPath:
    """Return the file's path relative to OUT_DIR; raise if the logical path is not `fi:`."""
    if not isinstance(path, FileForm):
        raise PathError("path_not_a_file", f"only fi: paths lie in a folder, got {quote_prefix(str(path))}")
    match path:
        case FilePath(turn, area, rel):
            return PhysicalPath(f"{turn}/{area}/{rel}")
        case AttachmentPath(turn, name):
            return PhysicalPath(f"{turn}/attachments/{name}")
        case EventAttachmentPath(turn, kind, message, name):
            return PhysicalPath(f"{turn}/external/{kind}/attachments/{message}/{name}")
        case _:
            assert_never(path)


def to_logical(physical_text: str) -> FileForm:
    """Return the logical path of a file in OUT_DIR; the inverse of `to_physical`."""
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
                f"or <turn>/external/<kind>/attachments/<message_id>/<name>; got {quote_prefix(physical_text)}",
            )
