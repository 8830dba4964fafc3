"""A typed function is a tool: its signature is the schema, its docstring the words, its errors are results."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Literal, cast

import msgspec
import pytest

from tests.harness.timeline import RESULT, BlockTimeline, make_context
from timeloom.core.codes import CodedError
from timeloom.ports.tool import Caller, Emit, Outcome, TimelineReader, Tool, ToolContext
from timeloom.tools import FunctionTool, WritePath, tool
from timeloom.tools.define import ToolFunction


class Item(msgspec.Struct, forbid_unknown_fields=True):
    """One thing to read."""

    path: Annotated[str, WritePath]
    line_start: int = 1


class Spot(msgspec.Struct, forbid_unknown_fields=True):
    x: int = 0


class Named(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class Tree(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, WritePath()]
    inner: "list[Tree]" = []


Long = Literal[
    "a choice that takes very many words to say what it is, and so do all the others that stand beside it",
    "another choice that takes very many words to say what it is, and says nothing that nobody knew",
    "a third choice that takes very many words to say what it is, and then some more for good measure",
    "a fourth choice that takes very many words to say what it is, and is the last",
]
NO_OPTIONS: dict[str, object] = {}
NOTHING: list[object] = []


@tool("files.gather", effect="pure", deadline_s=5, aliases=("files.collect",), renamed={"max": "most"})
async def gather(
    items: list[Item],
    context: ToolContext,
    mode: Literal["all", "newest"] = "all",
    most: int | None = None,
    options: dict[str, object] = NO_OPTIONS,
    from_: str = "",
) -> dict[str, object]:
    """Gathers things from files.

    It looks at each of them once.

    items: what to read,
        in this order
    mode: all versions, or the newest
    from: the day to begin with

    Nothing is changed by it.
    """
    options["seen"] = True
    return {"n": len(items), "mode": mode, "most": most, "from": from_, "turn": context.turn_id, **options}


def call(made: Tool, params: object = None, out_dir: Path = Path("/srv/out")) -> Outcome:
    return asyncio.run(made.call(json.dumps(params or {}), make_context(BlockTimeline(), out_dir=out_dir)))


def result(outcome: Outcome) -> object:
    [artifact] = outcome.artifacts
    assert isinstance(artifact.text, str)
    return json.loads(artifact.text) if artifact.mime == "application/json" else artifact.text


def refusal(outcome: Outcome, code: str = "tool_params_invalid") -> str:
    assert outcome.error is not None
    assert (outcome.error.code, outcome.artifacts) == (code, ())
    return outcome.error.message


def returning(value: object) -> FunctionTool:
    @tool("x.give")
    async def give() -> object:
        """Gives."""
        return value

    return give


def raising(error: BaseException) -> FunctionTool:
    @tool("x.fail")
    async def fail() -> None:
        """Fails."""
        raise error

    return fail


# --- what is known of it ---------------------------------------------------------------------------------------


def test_the_docstring_gives_the_purpose_and_the_description() -> None:
    assert gather.spec.purpose == "Gathers things from files."
    assert gather.spec.description == "It looks at each of them once.\n\n\nNothing is changed by it."


def test_what_the_decorator_says_stands_in_the_spec() -> None:
    spec = gather.spec
    assert (spec.tool_id, spec.effect, spec.deadline_s) == ("files.gather", "pure", 5)
    assert spec.aliases == ("files.collect",)
    assert spec.write_params == ("items.*.path",)


def test_the_signature_gives_the_schema() -> None:
    assert json.loads(gather.spec.params_schema) == {
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {"$ref": "#/$defs/Item"},
                "description": "what to read, in this order",
            },
            "mode": {"enum": ["all", "newest"], "default": "all", "description": "all versions, or the newest"},
            "most": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            "options": {"type": "object", "additionalProperties": True},
            "from": {"type": "string", "default": "", "description": "the day to begin with"},
        },
        "required": ["items"],
        "additionalProperties": False,
        "$defs": {
            "Item": {
                "title": "Item",
                "description": "One thing to read.",
                "type": "object",
                "properties": {"path": {"type": "string"}, "line_start": {"type": "integer", "default": 1}},
                "required": ["path"],
                "additionalProperties": False,
            }
        },
    }


def test_the_parts_of_the_context_are_given_to_whoever_asks_and_are_not_parameters() -> None:
    said: list[tuple[str, str]] = []

    @tool("x.parts")
    async def parts(caller: Caller, timeline: TimelineReader, emit: Emit, out_dir: Path, word: str) -> str:
        """Shows what it was given."""
        emit("progress", word)
        return f"{caller.user} {timeline.views.tail} {out_dir.name}"

    context = make_context(BlockTimeline(), lambda channel, text: said.append((channel, text)))
    outcome = asyncio.run(parts.call('{"word":"half"}', context))
    assert (result(outcome), said) == ("u 1 out", [("progress", "half")])
    assert list(json.loads(parts.spec.params_schema)["properties"]) == ["word"]


def test_the_headings_of_other_docstring_styles_are_understood() -> None:
    @tool("x.y")
    async def other(first: str, second: dict[str, int]) -> None:
        """Does it.

        Args:
            first: the one
            second: the other
        """
        del first, second

    properties = json.loads(other.spec.params_schema)["properties"]
    assert properties["first"]["description"] == "the one"
    assert properties["second"] == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
        "description": "the other",
    }
    assert other.spec.description == ""


def test_written_paths_are_found_wherever_they_are_marked() -> None:
    @tool("x.y")
    async def many(
        plain: Annotated[str, "a remark"],
        one: Annotated[str, WritePath],
        maybe: Annotated[str, WritePath] | None,
        some: dict[str, Annotated[str, WritePath]],
        tree: Tree,
    ) -> None:
        """Writes."""
        del plain, one, maybe, some, tree

    assert many.spec.write_params == ("one", "maybe", "some.*", "tree.name")


def test_a_function_of_another_form_is_refused_where_it_is_defined() -> None:
    for function, said in MALFORMED.items():
        with pytest.raises(CodedError, match=said) as refused:
            tool("x.y")(cast(ToolFunction, function))
        assert refused.value.code == "tool_malformed"
        assert str(refused.value).startswith("x.y (test_tools_define.py, line ")


def test_a_deadline_that_has_passed_already_is_refused() -> None:
    with pytest.raises(CodedError, match="greater than 0"):
        tool("x.y", deadline_s=0)(_fine)


# --- its parameters --------------------------------------------------------------------------------------------


def test_parameters_come_as_their_types() -> None:
    params = '{"items": [{"path": "a"}], "mode": "newest", "from": "monday", "options": {"deep": [1, {"x": 2}]}}'
    [artifact] = asyncio.run(gather.call(params, make_context(BlockTimeline()))).artifacts
    shown = '{"n":1,"mode":"newest","most":null,"from":"monday","turn":"turn_2","deep":[1,{"x":2}],"seen":true}'
    assert artifact.text == shown


def test_a_default_is_not_shared_between_calls() -> None:
    assert cast(dict[str, object], result(call(gather, {"items": []})))["seen"]
    assert NO_OPTIONS == {}


def test_another_name_of_a_parameter_is_understood() -> None:
    assert cast(dict[str, object], result(call(gather, {"items": [], "max": 3})))["most"] == 3


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (
            "{}",
            "the parameter `items` of files.gather is missing; expected a list of items, each an object with path (",
        ),
        ('{"items": 3}', "`items` of files.gather is of type `int` (3); expected a list of it"),
        ('{"items": [{"path": 7}]}', "`items[0].path` of files.gather is of type `int` (7); expected a string"),
        ('{"items": [{}]}', "the parameter `items[0].path` of files.gather is missing; expected a string"),
        ('{"items": [{"path": "", "x": 1}]}', 'field `x` ({"path":"","x":1}); expected an object with path'),
        ('{"items": [], "mode": "old"}', 'invalid enum value \'old\' ("old"); expected one of "all", "newest"'),
        ('{"items": [], "most": "3"}', 'is of type `str` ("3"); expected an integer or null'),
        ('{"items": [], "from": ["%s"]}' % ("x" * 200), '(["' + "x" * 78 + "…); expected a string"),
        ('{"items": [], "modes": ""}', "files.gather has no parameter `modes`; did you mean `mode`?"),
        ('{"items": [], "zzzzz": ""}', "files.gather has no parameter `zzzzz`; it has `items`, `mode`, `most`, `opti"),
        ('{"items": [], "%s": ""}' % ("a\\n" * 99), "has no parameter 'a\\na"),
        ('{"items": [], "max": 1, "most": 2}', "was given `most` twice, also as `max`"),
    ],
)
def test_a_refusal_names_the_parameter_what_was_got_and_what_is_expected(params: str, said: str) -> None:
    assert said in refusal(asyncio.run(gather.call(params, make_context(BlockTimeline()))))


def test_a_wrong_value_in_a_map_is_refused() -> None:
    @tool("x.y")
    async def counts(
        of: dict[str, int],
        flags: list[bool] | None = None,
        any_list: list[object] = NOTHING,
        spot: Spot | str = "",
        pair: tuple[int, Named] | None = None,
        whatever: object = None,
    ) -> None:
        """Counts."""
        del of, flags, any_list, spot, pair, whatever

    assert "is of type `str`; expected an integer" in refusal(call(counts, {"of": {"a": "b"}}))
    assert "expected true or false" in refusal(call(counts, {"of": {}, "flags": [1]}))
    assert "expected a list" in refusal(call(counts, {"of": {}, "any_list": 1}))
    assert "expected a string or an object (optional: x)" in refusal(call(counts, {"of": {}, "spot": 1}))
    assert "expected an integer" in refusal(call(counts, {"of": {}, "spot": {"x": "1"}}))
    assert "expected a list or null" in refusal(call(counts, {"of": {}, "pair": ["1", "2"]}))
    assert call(counts, {"of": {}, "whatever": [1]}) == Outcome()


def test_an_object_is_described_by_its_fields() -> None:
    @tool("x.y")
    async def call_it(named: Named) -> None:
        """Calls it."""
        del named

    assert refusal(call(call_it, {"named": 1})).endswith("expected an object with name")


def test_a_tool_without_parameters_says_that_it_takes_none() -> None:
    assert "it takes none" in refusal(call(returning(1), {"x": 1}))


def test_many_choices_are_cut() -> None:
    @tool("x.y")
    async def choose(one: Long) -> None:
        """Chooses."""
        del one

    assert refusal(call(choose, {"one": "z"})).endswith("…")


@pytest.mark.parametrize("text", ["[]", "{", "", '{"a":"\\ud800"}', '{"a":' * 5000 + "1" + "}" * 5000])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    outcome = asyncio.run(gather.call(text, make_context(BlockTimeline())))
    assert "one JSON object" in refusal(outcome)


# --- what it returns -------------------------------------------------------------------------------------------


def test_an_outcome_is_taken_as_it_is() -> None:
    outcome = Outcome(status="fine")
    assert call(returning(outcome)) is outcome


def test_nothing_is_a_plain_outcome() -> None:
    assert call(returning(None)) == Outcome()


@pytest.mark.parametrize(
    ("value", "mime", "text"),
    [
        ("# Report", "text/plain", "# Report"),
        ("half a pair \ud83d", "text/plain", "half a pair \ufffd"),
        ([1, None], "application/json", "[1,null]"),
        ({"a": {1: 2}}, "application/json", '{"a":{"1":2}}'),
        (Item("p"), "application/json", '{"path":"p","line_start":1}'),
        (False, "application/json", "false"),
    ],
)
def test_text_and_json_values_stand_at_the_result_path(value: object, mime: str, text: str) -> None:
    [artifact] = call(returning(value)).artifacts
    assert (artifact.path, artifact.mime, artifact.text) == (RESULT, mime, text)
    assert (artifact.kind, artifact.visibility) == ("file", "internal")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "NaN"),
        (
            {"mean": float("nan"), "n": None, "most": [1.5, float("inf")]},
            '{"mean":"NaN","n":null,"most":[1.5,"Infinity"]}',
        ),
        ((float("-inf"),), '["-Infinity"]'),
        ({"ok": True, "error": None, "ret": [float("nan")]}, '["NaN"]'),
    ],
)
def test_a_number_that_json_does_not_have_is_named_and_not_null(value: object, text: str) -> None:
    [artifact] = call(returning(value)).artifacts
    assert artifact.text == text


def test_a_number_that_json_does_not_have_is_named_in_an_error_too() -> None:
    error = {"code": "quota", "details": {"left": float("nan"), "rows": [float("inf")]}}
    outcome = call(returning({"ok": False, "error": error}))
    assert outcome.error is not None
    assert outcome.error.details == {"left": "NaN", "rows": '["Infinity"]'}


@pytest.mark.parametrize("value", [b"bytes", object(), {"a": object()}, {"a": "\ud800"}, 1j])
def test_a_value_without_a_json_form_is_an_error(value: object) -> None:
    assert "without a JSON form" in refusal(call(returning(value)), "tool_result_error")


def test_the_envelope_is_opened() -> None:
    assert result(call(returning({"ok": True, "error": None, "ret": [1]}))) == [1]
    assert result(call(returning({"ok": True, "error": None, "ret": "text"}))) == "text"
    assert call(returning({"ok": True, "error": None})) == Outcome()
    assert result(call(returning({"ok": True, "error": None, "rows": 3}))) == {"rows": 3}


def test_the_envelopes_error_becomes_the_results_and_managed_is_not_shown() -> None:
    error = {
        "code": "quota",
        "message": "no more",
        "where": "search",
        "managed": True,
        "details": {"left": 0, "x": [1]},
    }
    outcome = call(returning({"ok": False, "error": error, "ret": ["partial"]}))
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message, outcome.error.where) == ("quota", "no more", "search")
    assert outcome.error.details == {"left": 0, "x": "[1]"}
    assert "managed" not in str(outcome)
    assert result(outcome) == ["partial"]
    assert [artifact.error for artifact in outcome.artifacts] == [outcome.error]


@pytest.mark.parametrize(
    ("error", "said"),
    [(None, "gave no reason"), ("broken", "broken"), ({"code": 7}, "gave no reason"), ({"message": ["a"]}, '["a"]')],
)
def test_an_envelope_that_failed_has_an_error_whatever_it_says(error: object, said: str) -> None:
    outcome = call(returning({"ok": False, "error": error}))
    assert outcome.error is not None
    assert said in outcome.error.message


# --- what it raises --------------------------------------------------------------------------------------------


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no such thing"), "ValueError: no such thing"),
        (KeyError("a"), "KeyError: 'a'"),
        (RecursionError(), "RecursionError"),
        (SpeechlessError(), "SpeechlessError"),
        (ExceptionGroup("two", [ValueError(), OSError()]), "two (2 sub-exceptions)"),
        (FileNotFoundError(2, "No such file", "/home/me/secret/x"), "No such file: '<a path of this machine>'"),
        (OSError("cannot open C:\\Users\\me\\x.txt now"), "cannot open <a path of this machine> now"),
        (OSError("cannot open /srv/out/turn_2/files/a.md"), "cannot open turn_2/files/a.md"),
        (OSError("cannot list /srv/out"), "cannot list OUT_DIR"),
        (OSError("GET https://example.org/a/b/c said 404"), "GET https://example.org/a/b/c said 404"),
        (ValueError("x" * 10_000), "xxx…"),
    ],
)
def test_an_exception_is_a_result_without_a_path_of_the_host(error: Exception, said: str) -> None:
    message = refusal(call(raising(error)), "tool_call_error")
    assert said in message
    assert len(message) <= 2000


def test_an_exception_with_half_a_character_is_mended(caplog: pytest.LogCaptureFixture) -> None:
    # Kept out of the captured log: what carries reports between test processes takes no half characters.
    with caplog.at_level(logging.CRITICAL, "timeloom"):
        outcome = call(raising(ValueError("a\ud800")))
    assert outcome.error is not None
    assert "a\ufffd" in outcome.error.message


def test_a_coded_error_keeps_its_code() -> None:
    error = CodedError("plan_unknown", "no plan has the id x")
    assert refusal(call(raising(error)), "plan_unknown") == "no plan has the id x"
    assert refusal(call(raising(CodedError("plan_unknown", ""))), "plan_unknown") == "plan_unknown"


def test_a_cancellation_passes_through() -> None:
    with pytest.raises(asyncio.CancelledError):
        call(raising(asyncio.CancelledError()))


async def _fine() -> None:
    """Is fine."""


def _yields() -> Iterator[int]:
    """Yields."""
    yield 1


async def _untyped(x: str) -> None:
    """Has no types."""


async def _nowhere(x: str) -> None:
    """Has a type that is not there."""


async def _starred(*x: str) -> None:
    """Takes any number."""


async def _silent(x: str) -> None:
    pass


async def _odd(x: complex) -> None:
    """Has a type that JSON has not."""


del _untyped.__annotations__["x"]
_nowhere.__annotations__["x"] = "Nowhere"

MALFORMED: dict[Callable[..., object], str] = {
    _yields: "must return one value",
    _untyped: "has no type",
    _nowhere: "cannot be resolved where the tool is defined",
    _starred: "cannot be passed by keyword",
    _silent: "docstring whose first line",
    _odd: "without a JSON form",
}


@tool(effect="pure")
def double(n: int) -> int:
    """Return twice the number."""
    return 2 * n


class Shop:
    def __init__(self, stock: int) -> None:
        self.stock = stock

    @tool("shop.stock", effect="pure")
    async def count(self, plus: int = 0) -> int:
        """Return the number of items in stock."""
        return self.stock + plus

    @tool
    def name(self) -> str:
        """Return the name of the shop."""
        return f"shop of {self.stock}"


def test_a_sync_function_without_an_id_is_a_tool_and_stays_callable() -> None:
    assert double.spec.tool_id == "tools.double"
    assert double(4) == 8
    assert result(call(double, {"n": 4})) == 8


def test_a_method_becomes_a_tool_of_each_instance() -> None:
    shop, other = Shop(3), Shop(5)
    assert result(call(shop.count, {"plus": 1})) == 4
    assert result(call(other.count)) == 5
    assert Shop.count.spec.params_schema == shop.count.spec.params_schema
    assert "self" not in shop.count.spec.params_schema
    assert shop.name.spec.tool_id == "tools.name"
    assert call(shop.name).artifacts[0].text == "shop of 3"


def test_a_bound_method_can_be_made_a_tool() -> None:
    class Plain:
        def add(self, a: int, b: int) -> int:
            """Add."""
            return a + b

    assert result(call(tool("math.add")(Plain().add), {"a": 1, "b": 2})) == 3


def test_a_refused_form_names_the_file_and_the_line() -> None:
    with pytest.raises(CodedError, match=r"tools\._silent \(test_tools_define\.py, line \d+\): "):
        tool(_silent)


def test_a_function_without_a_name_needs_an_id() -> None:
    with pytest.raises(CodedError, match="give it an id"):
        tool(lambda: None)
