"""The example that shows how a form is answered without a terminal."""

from timeloom.cli.chat.terminal.form_prompt import example_answer
from timeloom.core.policy.forms import Form, FormField, check_answer


def test_the_example_of_a_form_is_an_answer_that_the_form_accepts() -> None:
    fields = (
        FormField(name="day", type="date", required=True),
        FormField(name="way", type="choice", options=("ship", "plane"), required=True),
        FormField(name="extras", type="choices", options=("bike", "dog"), required=True),
        FormField(name="people", type="number", required=True),
        FormField(name="return", type="yes_no", required=True),
        FormField(name="name", type="text", required=True),
        FormField(name="note", type="text"),
    )
    form = Form(title="Your trip", fields=fields)
    assert set(check_answer(form, example_answer(form))) == {field.name for field in fields[:-1]}


def test_a_form_without_required_fields_shows_its_first_one() -> None:
    assert example_answer(Form(title="Any", fields=(FormField(name="note", type="text"),))) == '{"note":"…"}'
