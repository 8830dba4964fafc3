"""Converts text and TOML values to the type of a setting, and describes types and values."""

import math
from pathlib import Path
from types import UnionType as Union
from typing import Final, cast, get_args, get_origin

import msgspec
from msgspec import inspect

from timeloom.config.catalogue import Row
from timeloom.config.errors import ConfigError
from timeloom.providers.settings import Price

_SHOWN_CHARS: Final = 80
_SHOWN_NUMBER: Final = 10**15
_HIDDEN: Final = "***"


def from_text(row: Row, text: str, place: str) -> object:
    """Parse the value of an option or a variable; `place` names it in errors."""
    if _is_table(row):
        return _from_table(row, _parsed(row, text, place), place)
    if _is_list(row):
        return _from_list(row, [part.strip() for part in text.split(",") if part.strip()], place)
    said = text if _is_path(row) else text.strip()
    return _checked(row, said, place, strict=False)


def from_value(row: Row, value: object, place: str) -> object:
    """Convert a typed value of a file or a bundle; `place` names it in errors."""
    if _is_table(row):
        return _from_table(row, value, place)
    return _from_list(row, value, place) if _is_list(row) else _checked(row, value, place, strict=True)


def expected(row: Row) -> str:
    """Describe the values that a setting accepts."""
    return _words(inspect.type_info(row.type))


def choices(row: Row) -> tuple[str, ...]:
    """Return the allowed words of a setting; empty if its type is not a choice of words."""
    kind = inspect.type_info(row.type)
    return tuple(str(value) for value in kind.values) if isinstance(kind, inspect.LiteralType) else ()


def shown(row: Row, value: object) -> object:
    """Return the value as JSON-compatible data for printing, with secrets and logins in URLs masked."""
    if row.about.secret:
        return _HIDDEN if value else ""
    if isinstance(value, str) and row.about.directs_key:
        return _without_login(value)
    # A path may contain bytes that are not valid text.
    return msgspec.to_builtins(value, enc_hook=lambda path: str(path).encode(errors="backslashreplace").decode())


def _checked(row: Row, said: object, place: str, *, strict: bool) -> object:
    try:
        value = msgspec.convert(said, row.type, strict=strict, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise _refused(row, said, place) from error
    if isinstance(value, str | Path) and not _is_sound(value):
        raise _refused(row, said, place)
    return value


def _from_list(row: Row, said: object, place: str) -> tuple[object, ...]:
    if not isinstance(said, list):
        raise _refused(row, said, place)
    kind = get_args(_bare(row))[0]
    return tuple(_entry(row, kind, one, place) for one in cast("list[object]", said))


def _from_table(row: Row, said: object, place: str) -> dict[str, object]:
    if not isinstance(said, dict):
        raise _refused(row, said, place)
    name_kind, kind = get_args(_bare(row))
    table: dict[str, object] = {}
    for name, one in cast("dict[str, object]", said).items():
        here = f"{place}, {name[:_SHOWN_CHARS]!r}"
        _entry(row, name_kind, name, place)
        table[name] = _price(row, one, here) if kind is Price else _entry(row, kind, one, here)
    return table


def _entry(row: Row, kind: object, said: object, place: str) -> object:
    """Convert one item of a list or table, so that an error can name it."""
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as error:
        raise _refused(row, said, place) from error


def _price(row: Row, said: object, place: str) -> Price:
    try:
        price = msgspec.convert(said, Price)
    except msgspec.ValidationError as error:
        why = str(error).replace("`$.", "`").removesuffix(" - at `$`")
        raise ConfigError("setting_invalid", f"{place}: {why}; expected {expected(row)}. {row.about.doc}") from error
    for field in Price.__struct_fields__:
        dollars: float | None = getattr(price, field)
        if dollars is not None and not 0 <= dollars < math.inf:
            raise _refused(row, dollars, f"{place}, {field}")
    return price


def _parsed(row: Row, text: str, place: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ConfigError("setting_invalid", f"{place} is not JSON ({error}); expected {expected(row)}") from error


def _path(kind: type, said: object) -> Path:
    if not isinstance(said, str) or not said:
        raise ValueError(f"{kind} must be given as text")
    try:
        return Path(said).expanduser()
    except RuntimeError as error:
        raise ValueError("this user has no home folder") from error


def _is_sound(value: str | Path) -> bool:
    """Whether the value has no NUL and, unless it is a path, no lone surrogates."""
    return "\0" not in str(value) and (isinstance(value, Path) or not any("\ud800" <= c <= "\udfff" for c in value))


def _refused(row: Row, said: object, place: str) -> ConfigError:
    got = "a value that is not shown" if row.about.secret else _got(said)
    return ConfigError("setting_invalid", f"{place} is {got}; expected {expected(row)}. {row.about.doc}")


def _got(said: object) -> str:
    match said:
        case str():
            text = ascii(_without_login(said[: 2 * _SHOWN_CHARS]))
            return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
        case bool():
            return str(said).lower()
        case int() if abs(said) > _SHOWN_NUMBER:
            return "a number that is far too large"
        case int() | float():
            return str(said)
        case list():
            return "an array"
        case dict():
            return "a table"
        case _:
            return "a date or a time"


def _words(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata(extra_json_schema={"description": str() as words}):
            return words
        case inspect.IntType(ge=low, le=high):
            return f"a whole number from {low} to {high}"
        case inspect.FloatType(gt=low, le=high):
            return f"a number above {low:g}, at most {high:.15g}"
        case inspect.LiteralType(values=values):
            return " or ".join(f"`{value}`" for value in values)
        case inspect.StrType():
            return "text"
        case inspect.UnionType(types=types):
            return " or ".join(_words(one) for one in types if not isinstance(one, inspect.NoneType))
        case _:
            return "a path"


def _without_login(text: str) -> str:
    scheme, slashes, rest = text.partition("://")
    host, slash, path = rest.partition("/")
    login, at, name = host.rpartition("@")
    return f"{scheme}{slashes}{_HIDDEN if login else ''}{at}{name}{slash}{path}" if slashes else text


def _is_table(row: Row) -> bool:
    return isinstance(row.default, dict)


def _is_list(row: Row) -> bool:
    return isinstance(row.default, tuple)


def _is_path(row: Row) -> bool:
    bare = _bare(row)
    return bare is Path or (get_origin(bare) is Union and Path in get_args(bare))


def _bare(row: Row) -> object:
    """Return the type of the setting without its annotations."""
    return get_args(row.type)[0]
