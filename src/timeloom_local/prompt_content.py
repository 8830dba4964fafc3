"""The content of a prompt as the local model uses it, with the paths of its files in the form of either edition."""

import re
from typing import Final

import msgspec


def split_path(path: str) -> tuple[str, str]:
    """Return the turn of a file and its path in the workspace: of `fi:t12/a.md`, `t12` and `files/a.md`."""
    if found := _SHORT.fullmatch(path):
        return found[1], f"files/{found[2]}"
    turn, _, relative = path.removeprefix("fi:").partition(".")
    return turn, relative


def path_order(path: str) -> tuple[int, str]:
    """Return the key by which versions of a file sort by time: by the number of an alias, else by the turn's id."""
    found = _NUMBER.match(path)
    return int(found[1]) if found else 0, path


_SHORT: Final = re.compile(r"fi:(t[0-9]+)/(.*)", re.DOTALL)
_NUMBER: Final = re.compile(r"fi:t([0-9]{1,9})[./]")


class PromptCall(msgspec.Struct, kw_only=True):
    """A call of the current turn and its outcome; `failure` is the message of an error or a refusal.

    `status` is the returned value, `text` the content of its artifacts.
    """

    tool_id: str
    params: str
    written: str = ""
    """The text that the call writes to a file."""
    done: bool = False
    failure: str = ""
    paths: list[str] = []
    status: str = ""
    text: str = ""


class PromptFile(msgspec.Struct, kw_only=True):
    """A file or attachment in the prompt; `text` is its content if the newest mention shows it."""

    path: str
    text: str | None = None
    attached: bool = False
    is_cut: bool = False
    """Whether the prompt shows only a part of the text."""

    @property
    def name(self) -> str:
        """The file name without folders."""
        return self.path.rpartition("/")[2]

    @property
    def relative(self) -> str:
        """The path in the workspace, without the turn: `files/docs/a.md`."""
        return split_path(self.path)[1]

    def is_of(self, turn: str) -> bool:
        """Return whether the file is a version of that turn."""
        return bool(turn) and split_path(self.path)[0] == turn


class ListedSource(msgspec.Struct, frozen=True):
    """A row of the sources pool; `where` is its path or URL."""

    sid: int
    title: str
    where: str


class PromptContent(msgspec.Struct, kw_only=True):
    """The content of a prompt: the newest message, the calls of the turn, files, sources and the plan."""

    edition: int = 1
    message: str = ""
    stop: bool = False
    turn: str = ""
    calls: list[PromptCall] = []
    files: dict[str, PromptFile] = {}
    exchanges: list[tuple[str, str]] = []
    """Earlier messages with their answers."""
    said: list[str] = []
    """The messages of earlier turns."""
    sources: list[ListedSource] = []
    plan: list[tuple[str, str]] = []
    """The steps of the current plan with their marks."""
    last_round: bool = False

    def begin_turn(self, turn: str) -> None:
        """Begin a turn: the message before it is one of the earlier messages."""
        self.said += [self.message] if self.message else []
        self.turn, self.calls, self.message, self.stop = turn, [], "", False

    def add_message(self, kind: str, text: str) -> None:
        """Add a message of the user; `kind` is `USER FOLLOWUP` or `USER STEER` if it came during the turn."""
        self.stop = kind == "USER STEER" and text in ("", "(stop)")
        # A follow-up before the first call extends the message; later it replaces the message.
        adds = kind == "USER FOLLOWUP" and self.message and not self.calls
        if self.calls and kind in ("USER FOLLOWUP", "USER STEER"):
            self.said.append(self.message)
            self.calls = []
        self.message = f"{self.message}\n{text}" if adds else text

    def add_notice(self, text: str) -> None:
        """Add a notice, `code: message`; one that is not about the form of a reply is the failure of the last call."""
        code, _, message = text.partition(": ")
        if self.calls and code and not code.startswith("protocol_violation.") and not self.calls[-1].failure:
            self.calls[-1].failure = message
            self.calls[-1].done = True

    def add_file(self, file: PromptFile) -> None:
        """Add a file that a result shows; it becomes the newest mention."""
        self.files.pop(file.path, None)
        self.files[file.path] = file


class _ReadStatus(msgspec.Struct):
    paths: list[str] = []
    missing: list[str] = []
    exists_in_visible_context: list[str] = []


def describe_missing(status: str) -> str:
    """Return the failure of a read that found none of its paths; empty otherwise."""
    try:
        found = msgspec.json.decode(status, type=_ReadStatus)
    except msgspec.MsgspecError:
        return ""
    names = ", ".join(path.rpartition("/")[2] for path in found.missing)
    has_found = found.paths or found.exists_in_visible_context
    return f"there is no file {names}" if found.missing and not has_found else ""
