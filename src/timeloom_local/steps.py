"""The steps of an intent: the calls that it needs, and the answer once they are made."""

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Final

import msgspec

from timeloom_local import calls
from timeloom_local.answers import join_names, one_line
from timeloom_local.intents.kinds import FileMention
from timeloom_local.known_files import FileChoice, choose_files, find_similar_name, newest_files
from timeloom_local.prompt_content import PromptCall, PromptContent, PromptFile, path_order
from timeloom_local.read_catalogue import OfferedTool
from timeloom_local.reply import Slot, Value
from timeloom_local.routing.router import Router

READ: Final = "react.read"
WRITE: Final = "react.write"
PATCH: Final = "react.patch"
PLAN: Final = "react.plan"
SEARCH: Final = "react.rg"


class PlannedCall(msgspec.Struct, frozen=True):
    """The next call with its reason, and the program that it runs."""

    tool_id: str
    params: Mapping[str, Value] | Slot
    reason: str
    code: str = ""


class ClauseAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a clause; `result` is what a later clause calls the result, `notes` marks steps of the plan."""

    parts: tuple[str | Slot, ...]
    failed: bool = False
    result: str = ""
    notes: str = ""
    followups: tuple[str, ...] = ()


Steps = Generator[PlannedCall, None, ClauseAnswer]
"""Yields the first call that is not made yet; if all are made, returns the answer. It is never resumed."""


class StepContext:
    """What the steps of an intent use: the prompt, the tools, and the calls of the turn that no clause has used yet."""

    def __init__(self, prompt: PromptContent, tools: Mapping[str, OfferedTool], router: Router) -> None:
        self.prompt = prompt
        self.tools = tools
        self.router = router
        self.result = ""
        self.has_answers = False
        self._made = deque(prompt.calls)

    def is_next(self, tool_id: str) -> bool:
        """Return whether the next call of the turn is one of this tool, so that it belongs to this step."""
        return bool(self._made) and self._made[0].tool_id == tool_id

    def call(
        self, tool_id: str, build: Callable[[], Mapping[str, Value] | Slot], reason: str, code: str = ""
    ) -> Generator[PlannedCall, None, PromptCall]:
        """Return the call if it was made; otherwise yield it."""
        # Calls of other tools are not of this plan: another model made them, or the message has changed.
        while self._made and self._made[0].tool_id != tool_id:
            self._made.popleft()
        if self._made:
            return self._made.popleft()
        yield PlannedCall(tool_id, build(), reason, code)
        raise RuntimeError("steps are not resumed")

    def find_file(self, mention: FileMention) -> Generator[PlannedCall, None, PromptFile | ClauseAnswer]:
        """Return the one file that a mention means, or the answer that it is missing or ambiguous."""
        found = yield from self.find_files(mention)
        if isinstance(found, ClauseAnswer):
            return found
        return found[0] if len(found) == 1 else fail(f"Which file do you mean: {_list(found)}? I changed nothing yet.")

    def find_files(self, mention: FileMention) -> Generator[PlannedCall, None, Sequence[PromptFile] | ClauseAnswer]:
        """Return the files that a mention means, or the answer that one is missing or that there are several."""
        choice = choose_files(mention, self.prompt)
        if choice.unknown and self.is_next(READ) and self._made[0].failure:
            return fail(self.describe_missing(choice.unknown))
        if self.is_next(SEARCH) or (choice.unknown and mention.names and SEARCH in self.tools):
            name = choice.unknown or mention.names[-1]
            made = yield from self.call(SEARCH, lambda: calls.build_name_params(name), f"{name} is not in sight.")
            found = _newest_path(made)
            if not found:
                return fail(self.describe_missing(name))
            known = self.prompt.files.get(found) or PromptFile(path=found, attached=".attachments/" in found)
            return list({file.path: file for file in (*choice.files, known)}.values())
        if choice.files and not choice.unknown:
            return choice.files
        return fail(self._describe_choice(choice, mention))

    def read_text(self, file: PromptFile, *, always: bool = False) -> Generator[PlannedCall, None, str | ClauseAnswer]:
        """Return the text of a file that is in sight; otherwise read it first."""
        if file.text is not None and not file.is_cut and not always and not self.is_next(READ):
            return file.text
        made = yield from self.call(
            READ, lambda: {"paths": [file.path]}, "It is read before anything is said about it."
        )
        if made.failure:
            return fail(f"I could not read {file.name}: {one_line(made.failure)}.")
        # A later call of the turn may have made a newer version; the call read the one that it names.
        newest = self.prompt.files.get(_read_path(made) or file.path, file)
        text = newest.text if newest.text is not None else made.text
        return text or fail(f"I could not read {file.name}: it has no text that I can see.")

    def describe_missing(self, name: str) -> str:
        """Return the answer for a file that is not there, with a similar name if there is one."""
        similar = find_similar_name(name, self.prompt)
        hint = f" Do you mean {similar}?" if similar else self._describe_known()
        return f"I could not find {name}: there is no file of that name, so I changed nothing.{hint}"

    def _describe_choice(self, choice: FileChoice, mention: FileMention) -> str:
        if choice.candidates:
            return f"Which file do you mean: {join_names(choice.candidates)}? Please name it. I changed nothing yet."
        if mention.is_attachment:
            return "I could not find an attachment: there is none in this conversation."
        if choice.unknown and not mention.names:
            return f"I could not find a file for “{choice.unknown}”, so I changed nothing.{self._describe_known()}"
        if choice.unknown:
            return self.describe_missing(choice.unknown)
        return f"Which file do you mean? Please name it. I changed nothing yet.{self._describe_known()}"

    def _describe_known(self) -> str:
        names = list(dict.fromkeys(file.name for file in newest_files(self.prompt)))
        return (
            f" The files that I see are {join_names(names[-8:])}." if names else " I see no files in this conversation."
        )


def fail(text: str) -> ClauseAnswer:
    """Return the answer of a clause that was not carried out."""
    return ClauseAnswer(parts=(text,), failed=True)


class _ReadParams(msgspec.Struct):
    paths: list[str] = []


def _read_path(call: PromptCall) -> str:
    """Return the path that a call read."""
    try:
        return next(iter(msgspec.json.decode(call.params, type=_ReadParams).paths), "")
    except msgspec.MsgspecError:
        return ""


class _NamedFile(msgspec.Struct):
    logical_path: str


class _NameStatus(msgspec.Struct):
    files: list[_NamedFile] = []


def _newest_path(call: PromptCall) -> str:
    """Return the path of the newest file that a search by name found."""
    try:
        found = msgspec.json.decode(call.status, type=_NameStatus).files
    except msgspec.MsgspecError:
        return ""
    return max((file.logical_path for file in found), key=path_order, default="")


def _list(files: Sequence[PromptFile]) -> str:
    return join_names([file.name for file in files])
