"""Tools as functions of native tool calling, and the system text beside them."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.render.catalogue import CatalogueTool
from timeloom.core.render.native_system import build_native_system_text
from timeloom.core.render.native_tools import (
    MAX_FUNCTION_CHARS,
    MAX_SCHEMA_CHARS,
    RUNTIME_FUNCTIONS,
    decode_native_tools,
    encode_native_tools,
    make_native_tools,
    native_names,
)
from timeloom.core.render.system import ORDER

TEXTS = {name: f"# {name}\n" for name in (*ORDER, "one_action", "several_actions")}
part = st.text("aB3_-", min_size=1, max_size=60)
tool_ids = st.lists(st.builds(lambda *parts: ".".join(parts), part, part), unique=True, max_size=12)


def tool(tool_id: str, schema: str = '{"type":"object"}', description: str = "") -> CatalogueTool:
    return CatalogueTool(tool_id=tool_id, purpose="does it", description=description, params_schema=schema)


def schema_of(text: str, *code_tools: str) -> dict[str, object]:
    return json.loads(make_native_tools([tool("a.b", text)], code_tools)[0].params_schema)


def test_a_dot_becomes_an_underscore() -> None:
    assert native_names(["react.read", "exec_tools.execute"]) == {
        "react.read": "react_read",
        "exec_tools.execute": "exec_tools_execute",
    }


def test_two_ids_with_the_same_name_and_a_name_of_the_runtime_get_a_hash() -> None:
    names = native_names(["a.b_c", "a_b.c", "call.tool"])
    assert names["a.b_c"] != names["a_b.c"]
    assert all(re.fullmatch(r"a_b_c_[0-9a-f]{12}", names[one]) for one in ("a.b_c", "a_b.c"))
    assert names["call.tool"].startswith("call_tool_")


@given(tool_ids)
def test_names_are_accepted_by_providers_and_never_shared(ids: list[str]) -> None:
    names = list(native_names(ids).values())
    assert len({name.lower() for name in names}) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    assert not {one.name for one in RUNTIME_FUNCTIONS}.intersection(names)


def test_the_list_is_sorted_and_is_read_back_as_it_was_written() -> None:
    made = make_native_tools([tool("z.z"), tool("a.b")])
    assert [one.name for one in made] == ["a_b", "z_z", "complete", "call_tool"]
    assert decode_native_tools(encode_native_tools(made)) == made
    assert decode_native_tools("") == ()


def test_a_long_description_is_cut_and_its_tags_are_escaped() -> None:
    (made, *_) = make_native_tools([tool("a.b", description="<channel:code>" + "x" * 5_000)])
    assert len(made.description) == MAX_FUNCTION_CHARS
    assert "<channel:" not in made.description


def test_a_schema_is_always_one_of_an_object() -> None:
    empty: dict[str, object] = {"type": "object", "properties": {}, "required": []}
    for text in ("", "[]", "[" * 5_000, json.dumps({"x": "y" * MAX_SCHEMA_CHARS}), '{"type":"string"}'):
        assert schema_of(text) == empty
    assert schema_of('{"anyOf":[{}],"additionalProperties":false}') == {**empty, "additionalProperties": False}


def test_a_tool_that_runs_code_has_the_program_as_a_parameter() -> None:
    found = schema_of('{"type":"object","properties":{"code":{},"a":{}},"required":["code","a"]}', "a.b")
    assert found["required"] == ["a", "code"]
    assert '"the whole program' in json.dumps(found["properties"])


def test_the_system_text_names_tools_without_a_function_and_functions_without_a_tool() -> None:
    plain = build_native_system_text(TEXTS)
    assert "# one_action" in plain
    assert "Tools" not in plain
    text = build_native_system_text(TEXTS, [tool("new.one")], ["old_one"], several_actions=True, bundle_text=" Be. ")
    assert "# several_actions" in text
    assert "Call these with `call_tool`.\n\n### new.one\n" in text
    assert "do not call them: `old_one`." in text
    assert text.endswith("# Instructions of this assistant\n\nBe.\n")
