"""Short aliases in paths: `t12` for the twelfth turn of a conversation, `t12.3` for the third call of that turn.

Only a conversation knows which turn is the twelfth. So an aliased path is a value of its own, which the conversation's
views expand to a logical path. No id can be mistaken for an alias: turn ids start with `turn_`, and a number stands for
a call only after the alias of a turn.
"""

import re
from typing import Final

import msgspec

from timeloom.core.ids import CallId, TurnId
from timeloom.core.paths.forms import CallTextPath, FilePath, ToolPath, TurnForm

_TURN: Final = re.compile(r"t([1-9][0-9]{0,6})")
_CALL: Final = re.compile(r"[1-9][0-9]{0,8}")
_PLACEHOLDER: Final = TurnId("turn_0")


class AliasedPath(msgspec.Struct, frozen=True):
    """A logical path that names its turn, and often its call, by number; `str()` is the canonical text.

    `fi:t12/report.md` is `report.md` in `files/` of turn 12. Use `make_alias` to build one from a logical path.
    """

    turn: int
    call: int | None
    """The number of the call; None if the path names no call, or names it by its id."""

    form: TurnForm
    """The path with a placeholder for the turn, and for a call that has a number."""

    def __str__(self) -> str:
        text, turn = str(self.form), turn_alias(self.turn)
        if isinstance(self.form, FilePath) and self.form.area == "files":
            return f"fi:{turn}/{self.form.rel}"
        return text.replace(_PLACEHOLDER, turn, 1)

    def expand(self, turn: TurnId, call: CallId | None = None) -> TurnForm:
        """Return the logical path with these ids; `call` is required if the path has the number of a call."""
        if isinstance(self.form, ToolPath | CallTextPath) and call is not None:
            return msgspec.structs.replace(self.form, turn=turn, call=call)
        return msgspec.structs.replace(self.form, turn=turn)


def make_alias(path: TurnForm, turn: int, call: int | None = None) -> AliasedPath | None:
    """Return the path with these numbers in place of its ids; None if the id of its call would be read as a number."""
    if not isinstance(path, ToolPath | CallTextPath):
        return AliasedPath(turn, None, msgspec.structs.replace(path, turn=_PLACEHOLDER))
    if call is None and _CALL.fullmatch(path.call):
        return None
    call_id = path.call if call is None else CallId(str(call))
    return AliasedPath(turn, call, msgspec.structs.replace(path, turn=_PLACEHOLDER, call=call_id))


def turn_alias(number: int) -> str:
    """Return the alias of the turn with that number."""
    return f"t{number}"


def call_alias(turn: int, call: int) -> str:
    """Return the alias of that call of the turn."""
    return f"t{turn}.{call}"


def parse_turn_alias(text: str) -> int | None:
    """Return the number of the turn that the text is an alias of; None if it is no alias."""
    return int(found[1]) if (found := _TURN.fullmatch(text)) else None


def parse_call_number(text: str) -> int | None:
    """Return the number of a call that follows a turn's alias; None if the text is the id of a call."""
    return int(text) if _CALL.fullmatch(text) else None
