"""Resource names: global names of files that include the tenant, project, user and conversation."""

import re
from typing import Final, Literal, assert_never

import msgspec

from timeloom.core.ids import ConversationId, IdError, MessageId, TurnId, parse_conversation_id
from timeloom.core.paths.errors import PathError, quote_prefix
from timeloom.core.paths.forms import AttachmentPath, EventAttachmentPath, FileForm, FilePath

MAX_RESOURCE_CHARS: Final = 8192
"""Longest resource name. A smaller limit refuses existing names of users and files; a larger one only costs time."""

ResourceStage = Literal["file", "attachment"]
"""`file` for a turn's output, `attachment` for a file sent to the turn."""

ResourceRole = Literal["artifact", "user", "external"]
"""Origin of the file: the agent, the user's first message, or a later event."""

_FORM: Final = "ef:{tenant}:{project}:chatbot:{stage}:{user_id}:{conv_id}:{turn_id}:{role}:{path}"
_ESCAPED: Final = re.compile(rb"%([0-9A-F]{2})")
_TO_ESCAPE: Final = re.compile(rb"[^A-Za-z0-9._~@+-]")


class ResourceName(msgspec.Struct, frozen=True, kw_only=True):
    """A file with its tenant, project, user and conversation; `str()` returns the resource name.

    Characters of tenant, project and user other than letters, digits and `._~@+-` are percent-encoded in the name.
    """

    tenant: str
    project: str
    user: str
    conversation: ConversationId
    path: FileForm

    def __post_init__(self) -> None:
        if not (self.tenant and self.project and self.user):
            raise _malformed_error("tenant, project and user are not empty")
        try:
            parse_conversation_id(self.conversation)
        except IdError as error:
            raise _malformed_error(str(error)) from error

    def __str__(self) -> str:
        stage, role, path = _stage_role_and_path(self.path)
        owner = ":".join(map(_escape, (self.tenant, self.project)))
        return f"ef:{owner}:chatbot:{stage}:{_escape(self.user)}:{self.conversation}:{self.path.turn}:{role}:{path}"


def parse_resource(text: str) -> ResourceName:
    """Parse a resource name; raise `PathError` unless the text is its one canonical spelling."""
    if len(text) > MAX_RESOURCE_CHARS:
        raise PathError("path_too_long", f"a resource name has at most {MAX_RESOURCE_CHARS} characters")
    parts = text.split(":", 9)
    if len(parts) < 10 or (parts[0], parts[3]) != ("ef", "chatbot"):
        raise _malformed_error(f"got {quote_prefix(text)}")
    _, tenant, project, _, stage, user, conversation, turn, role, path = parts
    name = ResourceName(
        tenant=_unescape(tenant),
        project=_unescape(project),
        user=_unescape(user),
        conversation=ConversationId(conversation),
        path=_parse_file(TurnId(turn), stage, role, path),
    )
    if str(name) != text:
        raise _malformed_error(f"it is written as {quote_prefix(str(name))}")
    return name


def _stage_role_and_path(path: FileForm) -> tuple[ResourceStage, ResourceRole, str]:
    """Return the stage, the role and the path that follow in the name."""
    match path:
        case FilePath(_, area, rel):
            return "file", "artifact", f"{area}/{rel}"
        case AttachmentPath(_, name):
            return "attachment", "user", name
        case EventAttachmentPath(_, kind, message, name):
            return "attachment", "external", f"{kind}/{message}/{name}"
        case _:
            assert_never(path)


def _parse_file(turn: TurnId, stage: str, role: str, path: str) -> FileForm:
    match stage, role, path.split("/"):
        case "file", "artifact", [("files" | "outputs") as area, *rel]:
            return FilePath(turn, area, "/".join(rel))
        case "attachment", "user", [name]:
            return AttachmentPath(turn, name)
        case "attachment", "external", [kind, message, name]:
            return EventAttachmentPath(turn, kind, MessageId(message), name)
        case _:
            raise _malformed_error(
                "stage, role and path are file:artifact:files/<rel>, file:artifact:outputs/<rel>, "
                "attachment:user:<name> or attachment:external:<kind>/<message_id>/<name>"
            )


def _escape(text: str) -> str:
    raw = text.encode("utf-8", "surrogatepass")
    return _TO_ESCAPE.sub(lambda found: b"%%%02X" % found[0][0], raw).decode()


def _unescape(text: str) -> str:
    raw = _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), text.encode("utf-8", "surrogatepass"))
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise _malformed_error(f"{quote_prefix(text)} is not percent-encoded UTF-8") from None


def _malformed_error(why: str) -> PathError:
    return PathError("rn_malformed", f"a resource name is {_FORM}; {why}")
