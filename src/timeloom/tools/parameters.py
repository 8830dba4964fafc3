"""Parses the parameters of a tool call strictly and explains a refusal with the parameter's name."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final, cast

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.stream.surrogates import replace_lone_surrogates
from timeloom.tools.pydantic_models import is_pydantic_model, validate_pydantic
from timeloom.tools.schema import JsonSchema, describe_schema, find_fragment, find_unknown_field

_PLACE: Final = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_KIND: Final = re.compile(r"Expected `[^`]*`, got `([^`]*)`")
_STEPS: Final = re.compile(r"\.|\[([0-9.]+)\]\.?")
_GOT_CHARS: Final = 80
_NAME_CHARS: Final = 60


MAX_ID_CHARS: Final = 128
"""Longest id of a tool. Smaller refuses names that tool servers use; larger lets a name fill the catalogue."""

_ID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)+")


class ParamsError(CodedError):
    """Invalid parameters of a call. The message names the parameter, the received value and the expected one."""

    def __init__(self, message: str) -> None:
        super().__init__("tool_params_invalid", message)


class ToolParameters(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of one tool: the Struct they are parsed into, its schema and accepted alternative names."""

    tool_id: str
    struct: type[msgspec.Struct]
    schema: JsonSchema
    renamed: Mapping[str, str]

    def parse(self, text: str) -> dict[str, object]:
        """Return the values by the function's parameter names; raise `ParamsError` if they are invalid."""
        given = self._resolve_names(_decode_object(text))
        try:
            values = msgspec.convert(given, self.struct, dec_hook=_convert_foreign)
        except msgspec.ValidationError as error:
            raise ParamsError(self._explain_error(str(error), given)) from None
        # Some types ignore fields that they do not have, and the model would not learn of it.
        if unknown := find_unknown_field(self.schema, self.schema, given):
            raise ParamsError(f"{self.tool_id} has no parameter {_quote_name(unknown[1:])}")
        return {name: getattr(values, name) for name in self.struct.__struct_fields__}

    def _resolve_names(self, given: dict[str, object]) -> dict[str, object]:
        known = self.struct.__struct_encode_fields__
        named: dict[str, object] = {}
        for name, value in given.items():
            canonical = self.renamed.get(name, name)
            if canonical not in known:
                raise ParamsError(f"{self.tool_id} has no parameter {_quote_name(name)}{_suggest_names(name, known)}")
            if canonical in named or (canonical != name and canonical in given):
                raise ParamsError(f"{self.tool_id} was given `{canonical}` twice, also as {_quote_name(name)}")
            named[canonical] = value
        return named

    def _explain_error(self, problem: str, given: Mapping[str, object]) -> str:
        found = cast(re.Match[str], _PLACE.fullmatch(problem))
        what, place = found[1], found[2] or ""
        if missing := _MISSING.fullmatch(what):
            place = f"{place}.{missing[1]}" if place else missing[1]
            what, got = "is missing", ""
        else:
            kind = _KIND.fullmatch(what)
            what = f"is of type `{kind[1]}`" if kind else f"was refused: {what[0].lower()}{what[1:]}"
            got = _format_value(given, _split_location(place))
        expected = describe_schema(self.schema, find_fragment(self.schema, _split_location(place)))
        return f"the parameter `{place}` of {self.tool_id} {what}{got}; expected {expected}"


def check_tool_id(name: str) -> None:
    """Raise if this cannot be the id or an alias of a tool."""
    if len(name) > MAX_ID_CHARS or not _ID.fullmatch(name):
        raise CodedError("tool_malformed", f"a tool id must look like family.name, got {name[:_NAME_CHARS]!a}")


def nearest_names(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """Return the known names that are most similar to this one, best match first."""
    return difflib.get_close_matches(name[:_NAME_CHARS].lower(), list(known), most, 0.5)


def _convert_foreign(kind: type, value: object) -> object:
    return validate_pydantic(kind, value) if is_pydantic_model(kind) else value


def _decode_object(text: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(replace_lone_surrogates(text), type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ParamsError(
            f"the parameters must be one JSON object without deep nesting, got {_quote_name(text)}: {error}"
        ) from None


def _suggest_names(name: str, known: tuple[str, ...]) -> str:
    if close := nearest_names(name, known):
        return f"; did you mean `{close[0]}`?"
    return f"; it has {', '.join(f'`{each}`' for each in known)}" if known else "; it takes none"


def _quote_name(name: str) -> str:
    return f"`{name}`" if len(name) <= _NAME_CHARS and name.isprintable() else f"{name[:_NAME_CHARS]!a}…"


def _split_location(place: str) -> list[str]:
    return [step for step in _STEPS.split(place) if step]


def _format_value(given: object, steps: Iterable[str]) -> str:
    """Return the value at that location as JSON; empty if the location cannot be found."""
    here = given
    for step in steps:
        if isinstance(here, dict) and step in here:
            here = cast(dict[str, object], here)[step]
        elif isinstance(here, list) and step.isdigit() and int(step) < len(cast(list[object], here)):
            here = cast(list[object], here)[int(step)]
        else:
            return ""
    text = msgspec.json.encode(here).decode()
    return f" ({text[:_GOT_CHARS]}{'…' if len(text) > _GOT_CHARS else ''})"
