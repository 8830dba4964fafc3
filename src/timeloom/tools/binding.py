"""Replaces references and write paths in a call's parameters before the tool receives them.

The text `ref:<logical path>` is replaced by the content at that path. A path that the tool writes is replaced by the
same path in the current turn. The call on the timeline keeps the parameters as the model wrote them.
"""

from collections.abc import Sequence
from typing import Final, cast

import msgspec

from timeloom.core.paths import PathError, parse, rewrite
from timeloom.core.paths.parse_path import MAX_PATH_CHARS, has_scheme
from timeloom.core.stream.surrogates import mended
from timeloom.ports.tool import ToolContext, ToolNotice
from timeloom.tools.parameters import ParamsError
from timeloom.tools.references import NotVisibleError, referred_text

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


class Bound(msgspec.Struct, frozen=True):
    """Parameters as the tool receives them, with notices for the model about replaced paths."""

    params: str
    notices: tuple[ToolNotice, ...] = ()


async def bind(params: str, write_params: Sequence[str], context: ToolContext) -> Bound:
    """Return the parameters with references and write paths replaced; raise a coded error if one cannot be replaced."""
    try:
        given = _OBJECT.decode(mended(params))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ParamsError(f"parameters are one JSON object that nests a little, got something else: {error}") from None
    binding = _Binding(context, [tuple(place.split(".")) for place in write_params])
    changed: dict[str, msgspec.Raw] = {}
    for name, raw in given.items():
        # Only changed parameters are encoded again, so that all others reach the tool byte for byte.
        before = _decoded(raw)
        after = await binding.bound(before, (name,))
        if after is not before:
            changed[name] = msgspec.Raw(msgspec.json.encode(after))
    if not changed:
        return Bound(params, tuple(binding.notices))
    return Bound(msgspec.json.encode({**given, **changed}).decode(), tuple(binding.notices))


class _Binding:
    """Replaces values in the parameters of one call; holds the references that it has loaded."""

    def __init__(self, context: ToolContext, write_places: list[tuple[str, ...]]) -> None:
        self._context = context
        self._write_places = write_places
        self._refs: dict[str, str] = {}
        self._bytes = 0
        self.notices: list[ToolNotice] = []

    async def bound(self, value: object, place: tuple[str, ...]) -> object:
        """Return the value with all replacements; the identical object if nothing was replaced."""
        if len(place) > MAX_DEPTH:
            raise ParamsError(f"`{place[0]}` nests deeper than {MAX_DEPTH}")
        match value:
            case str():
                return await self._bound_text(value, place)
            case list():
                return await self._bound_list(cast(list[object], value), place)
            case dict():
                return await self._bound_map(cast(dict[str, object], value), place)
            case _:
                return value

    async def _bound_list(self, items: list[object], place: tuple[str, ...]) -> list[object]:
        after = [await self.bound(item, (*place, str(at))) for at, item in enumerate(items)]
        return items if all(old is new for old, new in zip(items, after, strict=True)) else after

    async def _bound_map(self, fields: dict[str, object], place: tuple[str, ...]) -> dict[str, object]:
        after = {name: await self.bound(inner, (*place, name)) for name, inner in fields.items()}
        return fields if all(fields[name] is after[name] for name in fields) else after

    async def _bound_text(self, text: str, place: tuple[str, ...]) -> str:
        if any(_fits(place, pattern) for pattern in self._write_places):
            return self._bound_path(text, ".".join(place))
        path = text.removeprefix(_REF)
        # Other text with this prefix is prose: only a valid path is a reference.
        if path == text or len(path) > MAX_PATH_CHARS or not has_scheme(path):
            return text
        return await self._bound_ref(path, ".".join(place))

    def _bound_path(self, text: str, name: str) -> str:
        try:
            meant = rewrite(text, self._context.turn_id)
        except PathError as error:
            raise PathError(error.code, f"the parameter `{name}`: {error}") from None
        if not meant.writable:
            message = f"the parameter `{name}` names an attachment; write to files/ or outputs/ instead"
            raise PathError("path_read_only", message)
        if meant.changed:
            said = f"`{name}` named a file of another turn; it is now {meant.physical} of the current turn"
            self.notices.append(ToolNotice("protocol_violation.path_rewritten", said))
        return str(meant.physical)

    async def _bound_ref(self, text: str, name: str) -> str:
        if text not in self._refs:
            if len(self._refs) == MAX_REFS:
                raise ParamsError(f"one call has at most {MAX_REFS} references")
            self._refs[text] = await self._read(text, name)
        found = self._refs[text]
        # Each use counts: the same text inserted twice doubles the size of the parameters.
        self._bytes += len(found.encode())
        if self._bytes > MAX_BOUND_BYTES:
            raise ParamsError(
                f"the references of one call bring in at most {MAX_BOUND_BYTES} bytes, with `{name}` more"
            )
        return found

    async def _read(self, text: str, name: str) -> str:
        try:
            return await referred_text(parse(text), self._context.timeline, MAX_BOUND_BYTES)
        except (NotVisibleError, PathError) as error:
            raise NotVisibleError(f"the parameter `{name}`: {error}") from None
        except ParamsError as error:
            raise ParamsError(f"the parameter `{name}`: {error}") from None


def _decoded(raw: msgspec.Raw) -> object:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ParamsError(f"a parameter is not JSON that nests a little: {error}") from None


def _fits(place: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    return len(place) == len(pattern) and all(
        wanted in ("*", step) for step, wanted in zip(place, pattern, strict=True)
    )
