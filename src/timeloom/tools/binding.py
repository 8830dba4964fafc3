"""Replaces references and write paths in a call's parameters before the tool receives them.

The text `ref:<logical path>` is replaced by the content at that path. A path that the tool writes is replaced by the
same path in the current turn. The call on the timeline keeps the parameters as the model wrote them.
"""

from collections.abc import Sequence
from typing import Final, cast

import msgspec

from timeloom.core.paths import PathError
from timeloom.core.paths.parse_path import MAX_PATH_CHARS, has_scheme
from timeloom.core.stream.surrogates import replace_lone_surrogates
from timeloom.core.view.aliases import parse_in, rewrite_in
from timeloom.ports.tool import ToolContext, ToolNotice
from timeloom.tools.parameters import ParamsError
from timeloom.tools.references import NotVisibleError, load_referenced_text
from timeloom.tools.shown_names import shown_place

MAX_REFS: Final = 64
"""Most references of one call. Smaller refuses a report of many parts; larger makes one call read much."""

MAX_BOUND_BYTES: Final = 4 * 1024 * 1024
"""Most text that the references of one call insert. Smaller refuses large pages; larger lets parameters double."""

MAX_DEPTH: Final = 64
"""Deepest nesting of parameters. Deeper ones cannot be walked safely."""

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_REF: Final = "ref:"


class WritePath:
    """Marks a parameter as a path that the tool writes: `path: Annotated[str, WritePath]`.

    The tool gets the physical path of a file of the current turn, relative to OUT_DIR.
    """


class BoundParameters(msgspec.Struct, frozen=True):
    """Parameters as the tool receives them, with notices for the model about replaced paths."""

    params: str
    notices: tuple[ToolNotice, ...] = ()


async def bind_parameters(params: str, write_params: Sequence[str], context: ToolContext) -> BoundParameters:
    """Return the parameters with references and write paths replaced; raise a coded error if one cannot be replaced."""
    try:
        given = _OBJECT.decode(replace_lone_surrogates(params))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ParamsError(f"the parameters must be one JSON object without deep nesting: {error}") from None
    binder = _ParameterBinder(context, [tuple(place.split(".")) for place in write_params])
    changed: dict[str, msgspec.Raw] = {}
    for name, raw in given.items():
        # Only changed parameters are encoded again, so that all others reach the tool byte for byte.
        before = _decode_value(raw)
        after = await binder.bind_value(before, (name,))
        if after is not before:
            changed[name] = msgspec.Raw(msgspec.json.encode(after))
    if not changed:
        return BoundParameters(params, tuple(binder.notices))
    return BoundParameters(msgspec.json.encode({**given, **changed}).decode(), tuple(binder.notices))


class _ParameterBinder:
    """Replaces values in the parameters of one call; holds the references that it has loaded."""

    def __init__(self, context: ToolContext, write_places: list[tuple[str, ...]]) -> None:
        self._context = context
        self._write_places = write_places
        self._refs: dict[str, str] = {}
        self._bytes = 0
        self.notices: list[ToolNotice] = []

    async def bind_value(self, value: object, place: tuple[str, ...]) -> object:
        """Return the value with all replacements; the identical object if nothing was replaced."""
        if len(place) > MAX_DEPTH:
            raise ParamsError(f"`{place[0]}` nests deeper than {MAX_DEPTH}")
        match value:
            case str():
                return await self._bind_text(value, place)
            case list():
                return await self._bind_list(cast(list[object], value), place)
            case dict():
                return await self._bind_map(cast(dict[str, object], value), place)
            case _:
                return value

    async def _bind_list(self, items: list[object], place: tuple[str, ...]) -> list[object]:
        after = [await self.bind_value(item, (*place, str(at))) for at, item in enumerate(items)]
        return items if all(old is new for old, new in zip(items, after, strict=True)) else after

    async def _bind_map(self, fields: dict[str, object], place: tuple[str, ...]) -> dict[str, object]:
        after = {name: await self.bind_value(inner, (*place, name)) for name, inner in fields.items()}
        return fields if all(fields[name] is after[name] for name in fields) else after

    async def _bind_text(self, text: str, place: tuple[str, ...]) -> str:
        if any(_matches_pattern(place, pattern) for pattern in self._write_places):
            return self._bind_path(text, ".".join(place))
        path = text.removeprefix(_REF)
        # Other text with this prefix is prose: only a valid path is a reference.
        if path == text or len(path) > MAX_PATH_CHARS or not has_scheme(path):
            return text
        return await self._bind_ref(path, ".".join(place))

    def _bind_path(self, text: str, name: str) -> str:
        try:
            target = rewrite_in(text, self._context.turn_id, self._context.timeline.views)
        except PathError as error:
            raise PathError(error.code, f"the parameter `{name}`: {error}") from None
        if not target.writable:
            message = f"the parameter `{name}` names an attachment; write to files/ or outputs/ instead"
            raise PathError("path_read_only", message)
        if target.changed:
            place = shown_place(str(target.physical), self._context.timeline.views)
            text_of_notice = f"`{name}` named a file of another turn; it is now {place} of the current turn"
            self.notices.append(ToolNotice("protocol_violation.path_rewritten", text_of_notice))
        return str(target.physical)

    async def _bind_ref(self, text: str, name: str) -> str:
        if text not in self._refs:
            if len(self._refs) == MAX_REFS:
                raise ParamsError(f"one call has at most {MAX_REFS} references")
            self._refs[text] = await self._load_ref(text, name)
        found = self._refs[text]
        # Each use counts: the same text inserted twice doubles the size of the parameters.
        self._bytes += len(found.encode())
        if self._bytes > MAX_BOUND_BYTES:
            raise ParamsError(
                f"the references of one call bring in at most {MAX_BOUND_BYTES} bytes, with `{name}` more"
            )
        return found

    async def _load_ref(self, text: str, name: str) -> str:
        try:
            path = parse_in(text, self._context.timeline.views)
            return await load_referenced_text(path, self._context.timeline, MAX_BOUND_BYTES)
        except (NotVisibleError, PathError) as error:
            raise NotVisibleError(f"the parameter `{name}`: {error}") from None
        except ParamsError as error:
            raise ParamsError(f"the parameter `{name}`: {error}") from None


def _decode_value(raw: msgspec.Raw) -> object:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ParamsError(f"a parameter is not JSON, or is nested too deeply: {error}") from None


def _matches_pattern(place: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    return len(place) == len(pattern) and all(
        wanted in ("*", step) for step, wanted in zip(place, pattern, strict=True)
    )
