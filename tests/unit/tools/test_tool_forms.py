"""The forms of functions and parameters that `@tool` accepts, and what it says about the others."""

import asyncio
import enum
import functools
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

import msgspec
import pydantic
import pytest

from tests.harness.timeline import BlockTimeline, make_context
from timeloom.core.codes import CodedError
from timeloom.ports.tool import Effect, Outcome
from timeloom.tools.define import FunctionTool, tool


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclass
class Size:
    width: int
    depth: int = 1


class Options(TypedDict):
    color: str
    shiny: NotRequired[bool]


class Inner(pydantic.BaseModel):
    n: int = pydantic.Field(description="a number", ge=1)


class Order(pydantic.BaseModel):
    id: str
    lines: list[Inner] = []
    note: str | None = None


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    id: str


class Color(enum.Enum):
    RED = "red"


def call(made: FunctionTool, **params: object) -> Outcome:
    return asyncio.run(made.call(json.dumps(params), make_context(BlockTimeline())))


def value_of(outcome: Outcome) -> str:
    [artifact] = outcome.artifacts
    return str(artifact.text)


def refusal(outcome: Outcome) -> str:
    assert outcome.error is not None
    assert outcome.error.code == "tool_params_invalid"
    return outcome.error.message


def echoing(kind: object) -> FunctionTool:
    """Return a tool with one parameter of this type, which answers what it was given."""

    def echo(x: object) -> str:
        """Say what it was given."""
        return repr(x)

    echo.__annotations__["x"] = kind
    return tool("x.echo", effect="pure")(echo)


FORMS: list[tuple[object, object, str]] = [
    (Point, {"x": 1}, "Point(x=1, y=0)"),
    (Size, {"width": 2}, "Size(width=2, depth=1)"),
    (Options, {"color": "red"}, "{'color': 'red'}"),
    (Order, {"id": "a", "lines": [{"n": 2}]}, "Order(id='a', lines=[Inner(n=2)], note=None)"),
    (list[Order], [{"id": "a"}], "[Order(id='a', lines=[], note=None)]"),
    (dict[str, Size], {"a": {"width": 3}}, "{'a': Size(width=3, depth=1)}"),
    (Order | None, None, "None"),
    (Size | None, {"width": 4}, "Size(width=4, depth=1)"),
    (Color, "red", "<Color.RED: 'red'>"),
    (Literal["a", "b"], "b", "'b'"),
    (Annotated[int, msgspec.Meta(ge=1)], 1, "1"),
    (tuple[int, str], [1, "a"], "(1, 'a')"),
    (int | str, "a", "'a'"),
]


@pytest.mark.parametrize(("kind", "given", "shown"), FORMS, ids=[str(kind) for kind, _, _ in FORMS])
def test_a_parameter_arrives_as_a_value_of_its_type(kind: object, given: object, shown: str) -> None:
    assert value_of(call(echoing(kind), x=given)) == shown


@pytest.mark.parametrize(
    ("kind", "given", "place"),
    [
        (Point, {"x": 1, "z": 2}, "`x.z`"),
        (Size, {"width": 1, "heigth": 2}, "`x.heigth`"),
        (Options, {"color": "red", "size": 2}, "`x.size`"),
        (Order, {"id": "a", "lines": [{"n": 1}, {"n": 1, "m": 2}]}, "`x.lines.1.m`"),
        (Size | None, {"width": 1, "z": 2}, "`x.z`"),
        (dict[str, list[Point]], {"a": [{"x": 1, "q": 1}]}, "`x.a.0.q`"),
        (list[Point] | Size, {"width": 1, "q": 1}, "`x.q`"),
    ],
)
def test_an_unknown_field_is_refused_although_its_type_would_ignore_it(kind: object, given: object, place: str) -> None:
    made = echoing(kind)
    assert f"x.echo has no parameter {place}" in refusal(call(made, x=given))
    assert '"additionalProperties":true' not in made.spec.params_schema


def test_a_model_that_allows_other_fields_gets_them() -> None:
    assert value_of(call(echoing(Open), x={"id": "a", "more": 1})) == "Open(id='a', more=1)"


def test_a_pydantic_model_explains_its_refusal() -> None:
    said = refusal(call(echoing(Order), x={"id": 7, "lines": [{"n": 0}]}))
    assert "id: Input should be a valid string" in said
    assert "lines.0.n: Input should be greater than or equal to 1" in said


def test_the_schema_of_a_pydantic_model_has_its_inner_types_and_descriptions() -> None:
    schema = json.loads(echoing(Order).spec.params_schema)
    [inner] = [part for name, part in schema["$defs"].items() if name.endswith("Inner")]
    assert inner["properties"]["n"]["description"] == "a number"
    assert "$defs" not in schema["properties"]["x"]


class Shop:
    name = "the shop"

    @tool("shop.of_class", effect="pure")
    @classmethod
    def of_class(cls, word: str) -> str:
        """Say a word."""
        return f"{cls.name}: {word}"

    @tool("shop.of_none", effect="pure")
    @staticmethod
    def of_none(word: str) -> str:
        """Say a word."""
        return word

    @staticmethod
    @tool("shop.inside", effect="pure")
    async def inside(word: str) -> str:
        """Say a word."""
        return word


class Branch(Shop):
    name = "a branch"
    borrowed = Shop.of_none


def test_class_and_static_methods_are_tools_of_the_class_and_its_instances() -> None:
    assert value_of(call(Shop.of_class, word="a")) == value_of(call(Shop().of_class, word="a")) == "the shop: a"
    assert value_of(call(Branch.of_class, word="a")) == "a branch: a"
    for made in (Shop.of_none, Shop().of_none, Branch().borrowed, Shop.inside, Shop().inside):
        assert value_of(call(made, word="b")) == "b"
    assert Shop().of_none("c") == "c"


def test_descriptions_may_stand_in_the_annotation() -> None:
    @tool(effect="pure")
    def weather(city: Annotated[str, "a town"], day: Annotated[str, "not this one"] = "") -> str:
        """Return the weather.

        day: when
        """
        return city + day

    properties = json.loads(weather.spec.params_schema)["properties"]
    assert [one["description"] for one in properties.values()] == ["a town", "when"]


GOOGLE = """Find.

Args:
    city (str, optional): The city
        of the person.
    limit: How many.

Returns:
    A list.
"""
SPHINX = """Find.

:param city: The city
    of the person.
:param int limit: How many.
:returns: A list.
"""
NUMPY = """Find.

Parameters
----------
city : str
    The city
    of the person.
limit : int
    How many.
"""


@pytest.mark.parametrize("docstring", [GOOGLE, SPHINX, NUMPY])
def test_the_usual_docstring_styles_describe_parameters(docstring: str) -> None:
    def find(city: str, limit: int = 3) -> str:
        return city * limit

    find.__doc__ = docstring
    spec = tool("x.find", effect="pure")(find).spec
    properties = json.loads(spec.params_schema)["properties"]
    assert [one["description"] for one in properties.values()] == ["The city of the person.", "How many."]
    assert spec.purpose == "Find."
    assert "city" not in spec.description


class Callable_:  # noqa: N801 - the name of the type would shadow `Callable`
    def __call__(self, n: int) -> int:
        """Return it."""
        return n


def typed(n: int, m: int = 0) -> int:
    """Add."""
    return n + m


def constrained(n: Annotated[int, pydantic.Field(ge=1)]) -> int:
    """Return it."""
    return n


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3, "got a int; write a function"),
        (Point, "got a class"),
        (Callable_(), "got a Callable_"),
        (functools.partial(typed, m=1), r"\(test_tool_forms\.py, line \d+\): .*got a partial"),
        (constrained, r"\(test_tool_forms\.py, line \d+\): .*use msgspec\.Meta"),
    ],
)
def test_another_form_is_refused_with_its_place_and_the_fix(given: object, said: str) -> None:
    with pytest.raises(CodedError, match=said):
        tool("x.y")(cast(Any, given))


def test_a_wrong_id_or_effect_is_refused_where_it_is_written() -> None:
    for name in ("weather", "", "Two words.x"):
        with pytest.raises(CodedError, match=r"\(test_tool_forms\.py, line \d+\): a tool id must look like"):
            tool(name)(typed)
    with pytest.raises(CodedError, match="effect must be one of pure, idempotent, irreversible, got 'none'"):
        tool("x.y", effect=cast(Effect, "none"))(typed)


def test_a_decorator_below_classmethod_is_refused_with_the_fix() -> None:
    with pytest.raises(CodedError, match=r"write @tool above @classmethod"):

        class Wrong:  # pyright: ignore[reportUnusedClass]
            @classmethod
            @tool
            def make(cls, n: int) -> int:
                """Make."""
                return n
