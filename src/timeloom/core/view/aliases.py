"""Translates between the ids of a conversation's turns and calls and their short aliases."""

import re
from typing import Final

from timeloom.core.ids import CallId, TurnId
from timeloom.core.paths import (
    AliasedPath,
    CallTextPath,
    LogicalPath,
    PathError,
    RewrittenPath,
    ToolPath,
    TurnForm,
    call_alias,
    has_scheme,
    make_alias,
    parse,
    parse_long,
    rewrite_path,
    split_folder_alias,
    turn_alias,
)
from timeloom.core.view.views import Views

_PROBE: Final = "x"
_MAY_HAVE_ALIAS: Final = re.compile(r"(?:[a-z]{2}:|(?:\./)*)t[0-9]")


class ConversationNames:
    """The short aliases of one conversation; see `core/render/names.py`."""

    def __init__(self, views: Views) -> None:
        self._views = views

    def turn(self, turn_id: TurnId) -> str:
        """Return the alias of the turn; its id if the conversation has no such turn."""
        found = self._views.turns.turns.get(turn_id)
        return turn_alias(found.n) if found else turn_id

    def call(self, turn_id: TurnId, call_id: CallId) -> str:
        """Return the alias of the call; its id if the turn has no such call."""
        turn, call = self._views.turns.turns.get(turn_id), self._views.calls.get(turn_id, call_id)
        return call_alias(turn.n, call.n) if turn and call and call.n else call_id

    def path(self, path: str) -> str:
        """Return the path with aliases in place of its ids; unchanged if it has none, or is no logical path."""
        try:
            form = parse_long(path)
        except PathError:
            return path
        return self.parsed_path(path, form) if isinstance(form, TurnForm) else path

    def parsed_path(self, path: str, form: TurnForm) -> str:
        """Return the same for a path that is parsed already."""
        turn = self._views.turns.turns.get(form.turn)
        if turn is None:
            return path
        call = self._views.calls.get(form.turn, form.call) if isinstance(form, ToolPath | CallTextPath) else None
        return str(make_alias(form, turn.n, (call and call.n) or None) or path)


def resolve_aliases(path: LogicalPath | AliasedPath, views: Views) -> LogicalPath:
    """Return the path with the ids of its turn and call; raise `PathError` if the conversation does not have them.

    Only paths of this conversation have aliases; those of other conversations are long.
    """
    if not isinstance(path, AliasedPath):
        return path
    turn = find_turn(path.turn, views)
    if path.call is None:
        return path.expand(turn)
    call = views.calls.find(turn, path.call)
    if call is None:
        count = len(views.calls.by_number.get(turn, ()))
        alias = call_alias(path.turn, path.call)
        raise PathError("path_not_found", f"{alias} names no call: turn {path.turn} has {_count(count, 'call')}")
    return path.expand(turn, call)


def parse_in(text: str, views: Views) -> LogicalPath:
    """Return the logical path that the text spells, with its aliases resolved; raise `PathError` if it is none."""
    return resolve_aliases(parse(text), views)


def rewrite_in(text: str, current_turn: TurnId, views: Views) -> RewrittenPath:
    """Return the file of the current turn that the text names, with its aliases resolved; see `rewrite_path`."""
    return rewrite_path(expand_aliases(text, views), current_turn)


def expand_aliases(text: str, views: Views) -> str:
    """Return the logical or physical path of a file or folder with ids in place of its aliases; raise `PathError`.

    In a physical path the alias of a turn stands before one of its folders: `t12/files/report.md`. Every other text,
    such as a relative path, is returned unchanged, and is checked where it is parsed.
    """
    if not _MAY_HAVE_ALIAS.match(text):
        return text
    if not has_scheme(text):
        folder = split_folder_alias(text)
        return f"{find_turn(folder[0], views)}{folder[1]}" if folder else text
    # A folder ends with a slash. With a name it is a path that is checked like any other.
    suffix = _PROBE if text.endswith("/") else ""
    try:
        path = parse(text + suffix)
    except PathError:
        return text
    return str(resolve_aliases(path, views)).removesuffix(suffix) if isinstance(path, AliasedPath) else text


def find_turn(number: int, views: Views) -> TurnId:
    """Return the turn with that number; raise `PathError` if the conversation has fewer turns."""
    turn = views.turns.find(number)
    if turn is None:
        count = len(views.turns.by_number)
        message = f"{turn_alias(number)} names no turn: the conversation has {_count(count, 'turn')}"
        raise PathError("path_not_found", message)
    return turn


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
