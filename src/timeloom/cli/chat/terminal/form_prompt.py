"""Asks the person at the terminal for the values of a form, line by line."""

from collections.abc import Mapping
from typing import Final

import msgspec

from timeloom.cli.chat.display.transcript import Transcript
from timeloom.cli.chat.terminal.approval_prompt import UserQuitError
from timeloom.cli.chat.terminal.screen import KeyPress, LineInput, Screen
from timeloom.cli.sanitize import one_line
from timeloom.core.codes import CodedError
from timeloom.core.policy.forms import FieldKind, Form, FormField, check_answer, parse_entered

_HINTS: Final[Mapping[FieldKind, str]] = {
    "text": "",
    "number": "a number",
    "choice": "the number of one option",
    "choices": "the numbers of options, separated by commas",
    "date": "a date such as 2026-11-18",
    "yes_no": "yes or no",
}


def form_lines(form: Form) -> list[str]:
    """Return the title and the fields of the form with their options, one line each."""
    return [one_line(form.title, 300), *(line for field in form.fields for line in field_lines(field))]


def field_lines(field: FormField) -> list[str]:
    """Return the label of the field with what it takes, and its options by number."""
    notes = [_HINTS[field.type], "required" if field.required else "empty skips it"]
    head = f"{one_line(field.title, 300)} ({'; '.join(note for note in notes if note)})"
    return [head, *(f"  {number}. {one_line(option, 300)}" for number, option in enumerate(field.options, 1))]


def example_answer(form: Form) -> str:
    """Return a JSON object that answers the form: an example of each required field, or of the first one."""
    fields = [field for field in form.fields if field.required] or list(form.fields[:1])
    return msgspec.json.encode({field.name: _example_value(field) for field in fields}).decode()


def _example_value(field: FormField) -> object:
    match field.type:
        case "number":
            return 1
        case "choice":
            return field.options[0]
        case "choices":
            return list(field.options[:1])
        case "date":
            return "2026-11-18"
        case "yes_no":
            return True
        case "text":
            return "…"


async def ask_form(screen: Screen, transcript: Transcript, form: Form) -> str | None:
    """Return the values that the person enters as a JSON object, or None to answer later.

    Raises `UserQuitError` if the person quits.
    """
    transcript.print_message(one_line(form.title, 300), "strong", "question")
    transcript.print_message("Ctrl-C answers later", "quiet", "question")
    values: dict[str, object] = {}
    try:
        for field in form.fields:
            for line in field_lines(field):
                transcript.print_message(line, "plain", "question")
            screen.set_prompt(f"{one_line(field.name, 40)}> ", keeps_history=False)
            if not await _ask_field(screen, transcript, field, values):
                return None
    finally:
        screen.set_prompt()
    return msgspec.json.encode(values).decode()


async def _ask_field(screen: Screen, transcript: Transcript, field: FormField, values: dict[str, object]) -> bool:
    """Add the value of the field to the values; returns whether the person goes on with the form."""
    alone = Form(title="field", fields=(field,))
    while True:
        match await screen.events.get():
            case LineInput(text=text):
                value = {field.name: parse_entered(field, text)}
                try:
                    values |= check_answer(alone, msgspec.json.encode(value).decode())
                except CodedError as error:
                    transcript.print_message(f"{error}", "bad", "question")
                else:
                    return True
            case KeyPress(key="interrupt"):
                return False
            case KeyPress(key="leave"):
                raise UserQuitError
            case KeyPress():
                pass
