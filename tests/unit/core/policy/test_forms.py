"""Forms: their definition, and the check of a person's answer."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId
from timeloom.core.policy.forms import (
    MAX_ANSWER_CHARS,
    MAX_FIELDS,
    MAX_VALUE_CHARS,
    FieldKind,
    Form,
    FormField,
    check_answer,
    check_form,
    encode_answer,
    parse_entered,
    parse_form,
)

FORM = Form(
    title="Your trip",
    fields=(
        FormField(name="who", label="Your name", required=True),
        FormField(name="people", type="number"),
        FormField(name="class_", type="choice", options=("first", "second")),
        FormField(name="extras", type="choices", options=("bike", "dog", "2")),
        FormField(name="day", type="date"),
        FormField(name="return_", type="yes_no"),
    ),
)


def answer(**values: object) -> str:
    return msgspec.json.encode(values).decode()


def test_a_form_is_read_from_the_parameters_of_its_call() -> None:
    assert parse_form(msgspec.json.encode(FORM).decode()) == FORM
    assert [field.title for field in FORM.fields[:2]] == ["Your name", "people"]


@pytest.mark.parametrize("params", ["", "[]", "{}", '{"title":"a","fields":[{"name":"a","type":"file"}]}', "[" * 9999])
def test_parameters_that_are_no_form_are_refused(params: str) -> None:
    with pytest.raises(CodedError) as refused:
        parse_form(params)
    assert refused.value.code == "form_malformed"


@pytest.mark.parametrize(
    ("title", "fields"),
    [
        (" ", [{"name": "a"}]),
        ("x" * 301, [{"name": "a"}]),
        ("t", []),
        ("t", [{"name": f"f{n}"} for n in range(MAX_FIELDS + 1)]),
        ("t", [{"name": "a"}, {"name": "a"}]),
        ("t", [{"name": "a b"}]),
        ("t", [{"name": "a", "label": "x" * 301}]),
        ("t", [{"name": "a", "options": ["x"]}]),
        ("t", [{"name": "a", "type": "choice"}]),
        ("t", [{"name": "a", "type": "choices", "options": ["x", "x"]}]),
        ("t", [{"name": "a", "type": "choice", "options": [" "]}]),
        ("t", [{"name": "a", "type": "choice", "options": [str(n) for n in range(51)]}]),
    ],
)
def test_a_form_that_nobody_could_fill_in_is_refused(title: str, fields: list[dict[str, object]]) -> None:
    with pytest.raises(CodedError) as refused:
        check_form(msgspec.convert({"title": title, "fields": fields}, Form))
    assert refused.value.code == "form_malformed"


def test_an_answer_has_typed_values() -> None:
    given = answer(who="Ann", people=2, class_="first", extras=["dog", "bike"], day="2026-11-18", return_=False)
    assert check_answer(FORM, given) == {
        "who": "Ann",
        "people": 2,
        "class_": "first",
        "extras": ["bike", "dog"],
        "day": "2026-11-18",
        "return_": False,
    }


def test_empty_fields_are_left_out() -> None:
    given = answer(who="Ann", people=None, class_="", extras=[], day=" ")
    assert check_answer(FORM, given) == {"who": "Ann"}


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({}, "who"),
        ({"who": "  "}, "who"),
        ({"who": 3}, "who"),
        ({"who": "x" * (MAX_VALUE_CHARS + 1)}, "who"),
        ({"who": "a", "people": "2"}, "people"),
        ({"who": "a", "people": True}, "people"),
        ({"who": "a", "class_": "third"}, "class_"),
        ({"who": "a", "class_": ["first"]}, "class_"),
        ({"who": "a", "extras": "dog"}, "extras"),
        ({"who": "a", "extras": ["dog", "dog"]}, "extras"),
        ({"who": "a", "extras": ["cat"]}, "extras"),
        ({"who": "a", "day": "18.11.2026"}, "day"),
        ({"who": "a", "day": "2026-02-30"}, "day"),
        ({"who": "a", "day": 20261118}, "day"),
        ({"who": "a", "return_": "yes"}, "return_"),
        ({"who": "a", "other": 1}, "other"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_its_field(values: dict[str, object], names: str) -> None:
    with pytest.raises(CodedError, match=names) as refused:
        check_answer(FORM, answer(**values))
    assert refused.value.code == "form_answer_invalid"


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"who": NaN}', "x" * (MAX_ANSWER_CHARS + 1)])
def test_text_that_is_no_answer_is_refused(text: str) -> None:
    with pytest.raises(CodedError) as refused:
        check_answer(FORM, text)
    assert refused.value.code == "form_answer_invalid"


@given(
    st.dictionaries(
        st.sampled_from([one.name for one in FORM.fields]),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats()
            | st.text(max_size=5)
            | st.sampled_from(["first", "dog"]),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
            max_leaves=5,
        ),
    )
)
def test_an_answer_is_checked_or_refused_and_a_checked_one_stays(values: dict[str, object]) -> None:
    try:
        checked = check_answer(FORM, answer(**values))
    except CodedError as error:
        assert error.code == "form_answer_invalid"
    else:
        assert check_answer(FORM, answer(**checked)) == checked


def test_the_event_names_the_form_that_it_answers() -> None:
    text = encode_answer(CallId("abc123"), FORM, {"who": "Ann"})
    assert text == '{"form":"abc123","title":"Your trip","values":{"who":"Ann"}}'


@pytest.mark.parametrize(
    ("kind", "entered", "value"),
    [
        ("text", " Ann ", "Ann"),
        ("text", "  ", None),
        ("number", "2.5", 2.5),
        ("number", "two", "two"),
        ("yes_no", "Y", True),
        ("yes_no", "no", False),
        ("yes_no", "maybe", "maybe"),
        ("choice", "2", "dog"),
        ("choice", "dog", "dog"),
        ("choice", "9", "9"),
        ("choices", "1, dog,", ["bike", "dog"]),
        ("date", "2026-11-18", "2026-11-18"),
    ],
)
def test_a_line_becomes_a_value(kind: FieldKind, entered: str, value: object) -> None:
    options = ("bike", "dog") if kind in ("choice", "choices") else ()
    assert parse_entered(FormField(name="a", type=kind, options=options), entered) == value
