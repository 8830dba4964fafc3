"""Shortens the JSON of the runtime's own tools: no empty fields, aliases, and nothing that the contents show anyway."""

from typing import Final, cast

import msgspec

from timeloom.core.blocks import ToolTraits
from timeloom.core.ids import TurnId
from timeloom.core.render.names import Names

MAX_DEPTH: Final = 8
"""Maximum depth of the values that are shortened; deeper ones are shown as they are."""

MAX_PATH_CHARS: Final = 1_400
"""Longest text that can be a path. Longer text is not parsed."""

_SCHEMES: Final = ("ar:", "tc:", "fi:", "su:", "ws:", "ref:", "turn_")
_PATH_KEYS: Final = frozenset({"path", "logical_path"})


def alias_paths(value: object, names: Names, depth: int = MAX_DEPTH) -> object:
    """Return the value with aliases in each string that is a path of this conversation."""
    match value:
        case str():
            return _alias(value, names)
        case dict() if depth:
            items = cast("dict[str, object]", value).items()
            return {_alias(key, names): alias_paths(inner, names, depth - 1) for key, inner in items}
        case list() if depth:
            return [alias_paths(inner, names, depth - 1) for inner in cast("list[object]", value)]
        case _:
            return value


def status_json(text: str, traits: ToolTraits, names: Names) -> str | None:
    """Return the JSON status of a tool of the runtime without empty fields; None if the contents show all of it.

    It is empty if nothing is left. Text that is no JSON object is returned unchanged.
    """
    try:
        fields = msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return text
    shows_texts = traits.reads_artifacts and traits.numbers_lines and bool(fields.get("total_tokens"))
    if traits.reads_artifacts and traits.numbers_lines:
        fields = _read_status(fields, shows_texts=shows_texts)
    kept = alias_paths(_without_empty(fields, MAX_DEPTH), names)
    return msgspec.json.encode(kept).decode() if kept else None if shows_texts else ""


def _read_status(fields: dict[str, object], *, shows_texts: bool) -> dict[str, object]:
    """Return the status of a read with only what its contents do not show: the reasons, and how to continue."""
    kept = {name: value for name, value in fields.items() if name not in ("paths", "total_tokens")}
    items = kept.get("items")
    if shows_texts and isinstance(items, list):
        # If no text follows, the items are all that the model sees.
        more = [_unshown_fields(item) for item in cast("list[object]", items)]
        kept["items"] = [item for item in more if len(item) > 1]
    return kept


def _unshown_fields(item: object) -> dict[str, object]:
    fields = cast("dict[str, object]", item) if isinstance(item, dict) else {}
    return {name: fields[name] for name in ("path", "cut_line", "next_item", "left_out") if name in fields}


def _without_empty(value: object, depth: int) -> object:
    match value:
        case dict() if depth:
            items = cast("dict[str, object]", value)
            has_path = bool(_PATH_KEYS & items.keys())
            kept = {key: _without_empty(inner, depth - 1) for key, inner in items.items()}
            return {
                key: inner
                for key, inner in kept.items()
                # The physical path follows from the logical one.
                if not _is_empty(inner) and not (has_path and key == "physical_path")
            }
        case list() if depth:
            return [_without_empty(inner, depth - 1) for inner in cast("list[object]", value)]
        case _:
            return value


def _is_empty(value: object) -> bool:
    return value is None or value in ("", [], {})


def _alias(text: str, names: Names) -> str:
    if len(text) > MAX_PATH_CHARS or not text.startswith(_SCHEMES):
        return text
    if text.startswith("ref:"):
        return f"ref:{names.path(text.removeprefix('ref:'))}"
    if text.startswith("turn_"):
        # The physical path of a file begins with the folder of its turn.
        turn, slash, rest = text.partition("/")
        return f"{names.turn(TurnId(turn))}/{rest}" if slash else text
    return names.path(text)
