"""Forms: the typed questions of an agent to a person, and the check of the person's answer."""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from math import isfinite
from typing import Final, Literal, assert_never, cast

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId

MAX_FIELDS: Final = 30
MAX_OPTIONS: Final = 50
MAX_LABEL_CHARS: Final = 300
"""Longest title, label or option; a longer explanation belongs into the agent's answer."""

MAX_VALUE_CHARS: Final = 4_000
"""Longest text that a person can enter. All values together stay small enough to be inline in the log."""

MAX_ANSWER_CHARS: Final = 24_000

FieldKind = Literal["text", "number", "choice", "choices", "date", "yes_no"]
Value = str | int | float | bool | list[str]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


class FormField(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A field of a form. `options` belong to the types `choice` and `choices`."""

    name: str
    label: str = ""
    type: FieldKind = "text"
    required: bool = False
    options: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The text that people see."""
        return self.label or self.name


class Form(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A form: its title and its fields."""

    title: str
    fields: tuple[FormField, ...]


def check_form(form: Form) -> Form:
    """Return the form; raise `form_malformed` if people could not fill it in."""
    _need(0 < len(form.title.strip()) <= MAX_LABEL_CHARS, f"a form has a title of at most {MAX_LABEL_CHARS} characters")
    _need(0 < len(form.fields) <= MAX_FIELDS, f"a form has 1 to {MAX_FIELDS} fields, got {len(form.fields)}")
    names = [field.name for field in form.fields]
    _need(len({*names}) == len(names), f"each field has a name of its own, got {', '.join(names)[:400]}")
    for field in form.fields:
        _check_field(field)
    return form


def parse_form(params: str) -> Form:
    """Return the form that the parameters of a call describe; raise `form_malformed` if they describe none."""
    try:
        return check_form(msgspec.json.decode(params, type=Form))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CodedError("form_malformed", f"the parameters are no form: {error}") from error


def check_answer(form: Form, answer: str) -> dict[str, Value]:
    """Return the values of an answer, given as a JSON object; raise `form_answer_invalid` for the first wrong one.

    A value of a field that is not required may be missing, null or empty.
    """
    if len(answer) > MAX_ANSWER_CHARS:
        raise _invalid(f"the answer has {len(answer)} characters; at most {MAX_ANSWER_CHARS} are accepted")
    try:
        values = msgspec.json.decode(answer, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _invalid("the answer is no JSON object with a value for each field") from error
    if unknown := values.keys() - {field.name for field in form.fields}:
        raise _invalid(f"the form has no field {min(unknown)[:60]!r}")
    checked = {field.name: _check_value(field, values.get(field.name)) for field in form.fields}
    return {name: value for name, value in checked.items() if value is not None}


def encode_answer(call: CallId, form: Form, values: Mapping[str, Value]) -> str:
    """Return the text of the event that carries the answer to the form of that call."""
    return msgspec.json.encode({"form": call, "title": form.title, "values": values}).decode()


def parse_entered(field: FormField, entered: str) -> object:
    """Return the value that a person typed into a line, as it stands in an answer.

    Options are chosen by their numbers or their texts; several are separated by commas.
    """
    entered = entered.strip()
    if not entered:
        return None
    match field.type:
        case "number":
            return _number(entered)
        case "yes_no":
            return _YES_NO.get(entered.lower(), entered)
        case "choice":
            return _option(field.options, entered)
        case "choices":
            return [_option(field.options, one.strip()) for one in entered.split(",") if one.strip()]
        case "text" | "date":
            return entered
        case _:
            assert_never(field.type)


_YES_NO: Final = {"y": True, "yes": True, "n": False, "no": False}


def _number(entered: str) -> object:
    try:
        return msgspec.json.decode(entered, type=int | float)
    except msgspec.DecodeError:
        return entered


def _option(options: Sequence[str], entered: str) -> str:
    if entered not in options and entered.isascii() and entered.isdigit() and 1 <= int(entered[:9]) <= len(options):
        return options[int(entered) - 1]
    return entered


def _check_field(field: FormField) -> None:
    name = field.name[:60]
    _need(_NAME.fullmatch(field.name), f"the name of a field is a word of letters, digits and _, got {name!r}")
    _need(len(field.label) <= MAX_LABEL_CHARS, f"the label of {name} has more than {MAX_LABEL_CHARS} characters")
    if field.type not in ("choice", "choices"):
        _need(not field.options, f"the field {name} has options, so its type is choice or choices")
        return
    _need(1 <= len(field.options) <= MAX_OPTIONS, f"the field {name} needs 1 to {MAX_OPTIONS} options")
    _need(len({*field.options}) == len(field.options), f"the options of {name} differ from each other")
    is_short = all(one.strip() and len(one) <= MAX_LABEL_CHARS for one in field.options)
    _need(is_short, f"each option of {name} has 1 to {MAX_LABEL_CHARS} characters")


def _check_value(field: FormField, value: object) -> Value | None:
    """Return the value in its type; None if the field is empty."""
    if value is None or value == [] or (isinstance(value, str) and not value.strip()):
        if field.required:
            raise _invalid(f"the field {field.name} is required")
        return None
    checked = _typed_value(field, value)
    if checked is None:
        raise _invalid(f"the field {field.name} must be {_EXPECTED[field.type]}")
    return checked


_EXPECTED: Final[Mapping[FieldKind, str]] = {
    "text": f"text of at most {MAX_VALUE_CHARS} characters",
    "number": "a number",
    "choice": "one of its options",
    "choices": "a list of its options, each at most once",
    "date": "a date such as 2026-11-18",
    "yes_no": "true or false",
}


def _typed_value(field: FormField, value: object) -> Value | None:
    match field.type:
        case "text":
            return value if isinstance(value, str) and len(value) <= MAX_VALUE_CHARS else None
        case "number":
            is_number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
            return cast(float, value) if is_number else None
        case "yes_no":
            return value if isinstance(value, bool) else None
        case "choice":
            return value if isinstance(value, str) and value in field.options else None
        case "choices":
            return _chosen(field.options, value)
        case "date":
            return value if isinstance(value, str) and _is_date(value) else None
        case _:
            assert_never(field.type)


def _chosen(options: Sequence[str], value: object) -> list[str] | None:
    """Return the chosen options in the order of the form."""
    if not isinstance(value, list):
        return None
    given = cast(list[object], value)
    if any(one not in options for one in given) or any(given.count(one) > 1 for one in given[:MAX_OPTIONS]):
        return None
    return [one for one in options if one in given] if len(given) <= len(options) else None


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _need(holds: object, message: str) -> None:
    if not holds:
        raise CodedError("form_malformed", message)


def _invalid(message: str) -> CodedError:
    return CodedError("form_answer_invalid", message)
