"""Converts text and TOML values to the type of a setting, and describes types and values."""

import math
from pathlib import Path
from types import UnionType as Union
from typing import Final, cast, get_args, get_origin

import msgspec
from msgspec import inspect

from timeloom.config.catalogue import SettingSpec
from timeloom.config.errors import ConfigError
from timeloom.config.value_types import Url
from timeloom.platform.secrets import is_reference
from timeloom.providers.settings import Price

_SHOWN_CHARS: Final = 80
_SHOWN_NUMBER: Final = 10**15
_MASK: Final = "***"


def parse_text(row: SettingSpec, text: str, place: str) -> object:
    """Parse the value of an option or a variable; `place` names it in errors."""
    if _is_table(row):
        return _convert_table(row, _parse_json(row, text, place), place)
    if _is_list(row):
        return _convert_list(row, [part.strip() for part in text.split(",") if part.strip()], place)
    value = text if _is_path(row) else text.strip()
    return _convert(row, value, place, strict=False)


def convert_value(row: SettingSpec, value: object, place: str) -> object:
    """Convert a typed value of a file or a bundle; `place` names it in errors."""
    if _is_table(row):
        return _convert_table(row, value, place)
    return _convert_list(row, value, place) if _is_list(row) else _convert(row, value, place, strict=True)


def describe_expected(row: SettingSpec) -> str:
    """Describe the values that a setting accepts."""
    return _describe_type(inspect.type_info(row.type))


def allowed_words(row: SettingSpec) -> tuple[str, ...]:
    """Return the allowed words of a setting; empty if its type is not a choice of words."""
    kind = inspect.type_info(row.type)
    return tuple(str(value) for value in kind.values) if isinstance(kind, inspect.LiteralType) else ()


def to_printable(row: SettingSpec, value: object) -> object:
    """Return the value as JSON-compatible data for printing: secrets and logins in URLs masked, references shown."""
    if row.help.secret and isinstance(value, dict):
        # The names of secrets with their references; `SecretTable` admits nothing else.
        return cast("dict[str, str]", value)
    if row.help.secret:
        return value if isinstance(value, str) and (not value or is_reference(value)) else _MASK
    if isinstance(value, str) and _is_url(row):
        return _mask_login(value)
    # A path may contain bytes that are not valid text.
    return msgspec.to_builtins(value, enc_hook=lambda path: str(path).encode(errors="backslashreplace").decode())


def _convert(row: SettingSpec, raw: object, place: str, *, strict: bool) -> object:
    try:
        value = msgspec.convert(raw, row.type, strict=strict, dec_hook=_convert_path)
    except msgspec.ValidationError as error:
        raise _invalid_value_error(row, raw, place) from error
    if isinstance(value, str | Path) and not _is_valid_text(value):
        raise _invalid_value_error(row, raw, place)
    return value


def _convert_list(row: SettingSpec, value: object, place: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise _invalid_value_error(row, value, place)
    kind = get_args(_bare_type(row))[0]
    return tuple(_convert_item(row, kind, one, place) for one in cast("list[object]", value))


def _convert_table(row: SettingSpec, value: object, place: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _invalid_value_error(row, value, place)
    name_kind, kind = get_args(_bare_type(row))
    table: dict[str, object] = {}
    for name, one in cast("dict[str, object]", value).items():
        here = f"{place}, {name[:_SHOWN_CHARS]!r}"
        _convert_item(row, name_kind, name, place)
        table[name] = _convert_price(row, one, here) if kind is Price else _convert_item(row, kind, one, here)
    return table


def _convert_item(row: SettingSpec, kind: object, value: object, place: str) -> object:
    """Convert one item of a list or table, so that an error can name it."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _invalid_value_error(row, value, place) from error


def _convert_price(row: SettingSpec, value: object, place: str) -> Price:
    try:
        price = msgspec.convert(value, Price)
    except msgspec.ValidationError as error:
        why = str(error).replace("`$.", "`").removesuffix(" - at `$`")
        raise ConfigError(
            "setting_invalid", f"{place}: {why}; expected {describe_expected(row)}. {row.help.doc}"
        ) from error
    for field in Price.__struct_fields__:
        dollars: float | None = getattr(price, field)
        if dollars is not None and not 0 <= dollars < math.inf:
            raise _invalid_value_error(row, dollars, f"{place}, {field}")
    return price


def _parse_json(row: SettingSpec, text: str, place: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ConfigError(
            "setting_invalid", f"{place} is not JSON ({error}); expected {describe_expected(row)}"
        ) from error


def _convert_path(kind: type, value: object) -> Path:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{kind} must be given as text")
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise ValueError("the home folder of `~` is unknown; write the path without `~`") from error


def _is_valid_text(value: str | Path) -> bool:
    """Whether the value has no NUL and, unless it is a path, no lone surrogates."""
    return "\0" not in str(value) and (isinstance(value, Path) or not any("\ud800" <= c <= "\udfff" for c in value))


def _invalid_value_error(row: SettingSpec, value: object, place: str) -> ConfigError:
    got = "a value that is not shown" if row.help.secret else _describe_value(value)
    return ConfigError("setting_invalid", f"{place} is {got}; expected {describe_expected(row)}. {row.help.doc}")


def _describe_value(value: object) -> str:
    match value:
        case str():
            text = ascii(_mask_login(value[: 2 * _SHOWN_CHARS]))
            return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
        case bool():
            return str(value).lower()
        case int() if abs(value) > _SHOWN_NUMBER:
            return "a number that is far too large"
        case int() | float():
            return str(value)
        case list():
            return "an array"
        case dict():
            return "a table"
        case _:
            return "a date or a time"


def _describe_type(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata(extra_json_schema={"description": str() as words}):
            return words
        case inspect.IntType(ge=low, le=high):
            return f"a whole number from {low} to {high}"
        case inspect.FloatType(gt=low, le=high):
            return f"a number above {low:g}, at most {high:.15g}"
        case inspect.LiteralType(values=values):
            return " or ".join(f"`{value}`" for value in values)
        case inspect.BoolType():
            return "`true` or `false`"
        case inspect.StrType():
            return "text"
        case inspect.UnionType(types=types):
            return " or ".join(_describe_type(one) for one in types if not isinstance(one, inspect.NoneType))
        case _:
            return "a path"


def _mask_login(text: str) -> str:
    scheme, slashes, rest = text.partition("://")
    host, slash, path = rest.partition("/")
    login, at, name = host.rpartition("@")
    return f"{scheme}{slashes}{_MASK if login else ''}{at}{name}{slash}{path}" if slashes else text


def _is_url(row: SettingSpec) -> bool:
    return get_args(Url)[1] in get_args(row.type)


def _is_table(row: SettingSpec) -> bool:
    return isinstance(row.default, dict)


def _is_list(row: SettingSpec) -> bool:
    return isinstance(row.default, tuple)


def _is_path(row: SettingSpec) -> bool:
    bare = _bare_type(row)
    return bare is Path or (get_origin(bare) is Union and Path in get_args(bare))


def _bare_type(row: SettingSpec) -> object:
    """Return the type of the setting without its annotations."""
    return get_args(row.type)[0]
