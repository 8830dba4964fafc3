"""Replies of native tool calling, read into decisions, answers and faults."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.policy.convert_params import ToolForm
from timeloom.core.policy.read_native import read_native_reply, read_or_repair_native
from timeloom.core.policy.read_reply import ParsedReply, plain_answer, read_reply
from timeloom.core.policy.repair_reply import RepairContext, RepairedReply
from timeloom.core.stream.decision import MAX_DECISION_CHARS, CallToolDecision, CompleteDecision, ExitDecision
from timeloom.core.stream.native_reply import NativeCall, NativeReply

READ = ToolForm("react.read", '{"type":"object","properties":{"paths":{"type":"array","items":{"type":"string"}}}}')
EXEC = ToolForm("exec_tools.execute_code_python", '{"type":"object","properties":{"timeout_s":{"type":"integer"}}}')
CONTEXT = RepairContext(by_name={READ.tool_id: READ, EXEC.tool_id: EXEC})
DECISION = '{"action":"call_tool","tool_call":{"tool_id":"a.b","params":{}}}'
CHANNELS = f"<channel:ReactDecisionOutV2>{DECISION}</channel:ReactDecisionOutV2>"


def read_call(arguments: str) -> NativeCall:
    return NativeCall("react_read", arguments, "react.read")


def run_call(arguments: str) -> NativeCall:
    return NativeCall("exec_tools_execute_code_python", arguments, EXEC.tool_id)


def read(*calls: NativeCall, text: str = "", is_cut: bool = False) -> ParsedReply:
    return read_native_reply(NativeReply(text, calls), is_cut=is_cut)


def repair(*calls: NativeCall, text: str = "", is_cut: bool = False) -> tuple[ParsedReply, RepairedReply | None]:
    return read_or_repair_native(NativeReply(text, calls), CONTEXT, is_cut=is_cut)


def faults(reply: ParsedReply) -> list[str]:
    return [issue.code.removeprefix("protocol_violation.") for issue in reply.faults]


def test_a_call_is_the_decision_and_the_text_beside_it_its_notes() -> None:
    found = read(read_call('{"paths":["a"]}'), text=" I read it.\n")
    assert found == ParsedReply(decisions=(CallToolDecision("react.read", '{"paths":["a"]}', "I read it."),))


def test_text_without_a_call_is_the_answer() -> None:
    assert read(text="\nIt is 4.\n").decisions == (CompleteDecision("It is 4."),)


def test_empty_arguments_are_an_empty_object() -> None:
    assert read(read_call("")).decisions == (CallToolDecision("react.read", "{}"),)


def test_several_calls_are_several_decisions_and_the_first_has_the_notes() -> None:
    found = read(read_call("{}"), NativeCall("complete", '{"final_answer":"Yes"}'), text="Both.")
    assert found.decisions == (CallToolDecision("react.read", "{}", "Both."), CompleteDecision("Yes"))


def test_complete_has_followups_and_a_summary() -> None:
    arguments = '{"final_answer":"Yes","suggested_followups":["Why?"," "],"summary":" Goal. ","more":1}'
    found = read(NativeCall("complete", arguments), text="Done.")
    assert found.decisions == (CompleteDecision("Yes", ("Why?",), "Done.", ("more",)),)
    assert found.summary == "Goal."
    found = read(NativeCall("complete", '{"final_answer":"Yes","suggested_followups":"Why?"}'))
    assert found.decisions == (CompleteDecision("Yes", ("Why?",)),)


def test_complete_without_an_answer_takes_the_text_beside_it() -> None:
    assert read(NativeCall("complete", '{"summary":"S"}'), text="It is 4.").decisions == (CompleteDecision("It is 4."),)
    assert faults(read(NativeCall("complete", '{"summary":"S"}'))) == ["decision_malformed"]


def test_the_outcome_exit_ends_without_completing() -> None:
    found = read(NativeCall("complete", '{"final_answer":"No key.","outcome":"exit"}'))
    assert found.decisions == (ExitDecision("No key."),)


@pytest.mark.parametrize("params", ['{"a":1}', r'"{\"a\":1}"'])
def test_the_generic_function_calls_the_tool_that_it_names(params: str) -> None:
    found = read(NativeCall("call_tool", f'{{"tool_id":"new.one","params":{params}}}'))
    assert found.decisions == (CallToolDecision("new.one", '{"a":1}'),)


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("call_tool", "{}", "`tool_id` is missing"),
        ("call_tool", '{"tool_id":"a.b","params":[]}', "`params` is not an object"),
        ("complete", '{"final_answer":1}', "`final_answer` is not text"),
        ("complete", '{"final_answer":"a","suggested_followups":[1]}', "not a list of texts"),
        ("f", "{", "ends before the object is closed"),
        ("f", "{} {}", "more text follows"),
        ("f", '{"a":1,"a":2}', "at character"),
        ("f", "[]", "at character 1"),
        ("f", '{"a":1e999}', "are malformed"),
        ("f", '{"a":"' + "x" * MAX_DECISION_CHARS + '"}', "characters, more than"),
    ],
)
def test_arguments_of_another_form_are_a_fault_that_says_why(name: str, arguments: str, why: str) -> None:
    found = read(NativeCall(name, arguments))
    assert faults(found) == ["decision_malformed"]
    assert why in found.faults[0].text


def test_a_name_that_is_no_function_is_called_as_a_tool_and_refused_there() -> None:
    assert read(NativeCall("nothing", "{}")).decisions == (CallToolDecision("nothing", "{}"),)
    assert read(NativeCall("", "{}")).decisions == (CallToolDecision("(no name)", "{}"),)


def test_the_parameter_code_is_the_program() -> None:
    found = read(run_call('{"timeout_s":5,"code":"print(1)\\n"}'))
    assert (found.code, found.decisions) == ("print(1)\n", (CallToolDecision(EXEC.tool_id, '{"timeout_s":5}'),))
    assert faults(read(run_call('{"timeout_s":5}'))) == ["code_missing"]
    assert read(run_call('{"code":"a"}'), run_call('{"code":"b"}')).code == "a"


def test_a_program_may_contain_channel_tags() -> None:
    code = f"x = '''</channel:code>{CHANNELS}'''"
    found, repaired = repair(run_call(json.dumps({"code": code})))
    assert (found.code, len(found.decisions), repaired) == (code, 1, None)


@pytest.mark.parametrize("before", ["", " \n"])
def test_a_reply_in_channels_is_refused_and_calls_nothing(before: str) -> None:
    found = read(text=before + CHANNELS)
    assert (found.decisions, faults(found)) == ((), ["decision_missing"])
    assert "written in channels" in found.faults[0].text
    assert plain_answer(found) == ""


def test_channels_inside_an_answer_are_text() -> None:
    text = f"A call looks like this:\n{CHANNELS}"
    assert read(text=text).decisions == (CompleteDecision(text),)


def test_of_channels_beside_a_call_only_thinking_and_the_text_outside_count() -> None:
    text = f"<channel:thinking>\nhm\n</channel:thinking>\nI read it.\n{CHANNELS}"
    found = read(read_call("{}"), text=text)
    assert found == ParsedReply(thinking="hm", decisions=(CallToolDecision("react.read", "{}", "I read it."),))


def test_a_thought_in_tags_before_the_text_is_thinking() -> None:
    assert read(text="<think>hm</think>\nYes.") == ParsedReply(thinking="hm", decisions=(CompleteDecision("Yes."),))
    assert read(text="<think>hm").decisions == (CompleteDecision("<think>hm"),)
    found = read(read_call("{}"), text="<think>a</think><channel:thinking>b</channel:thinking>")
    assert found.thinking == "a\n\nb"


def test_an_empty_reply_is_a_fault() -> None:
    assert faults(read(text=" ")) == ["decision_missing"]


def test_an_answer_that_was_cut_is_asked_for_again_and_counts_in_the_end() -> None:
    found = read(text="It is", is_cut=True)
    assert "length limit" in found.faults[0].text
    assert plain_answer(found) == "It is"


def test_a_call_that_was_cut_is_not_completed() -> None:
    found, repaired = repair(read_call('{"paths":["a"'), is_cut=True)
    assert (faults(found), repaired) == (["decision_malformed"], None)
    assert found.faults[0].text.endswith("The reply ended before the arguments did.")


@pytest.mark.parametrize(
    ("arguments", "repairs"),
    [
        ('{"paths":["a"],}', ("trailing_comma",)),
        ("{'paths':['a']}", ("single_quotes",)),
        ('{"paths":["a"]', ("missing_brace",)),
        ('{"paths":["a"]}}', ("extra_brace",)),
        (r'"{\"paths\":[\"a\"]}"', ("params_as_text",)),
        ('{"paths":"a"}', ("string_for_list",)),
    ],
)
def test_arguments_with_one_reading_are_repaired(arguments: str, repairs: tuple[str, ...]) -> None:
    found, repaired = repair(read_call(arguments), text="Reading.")
    assert repaired is not None
    assert found == ParsedReply(
        decisions=(CallToolDecision("react.read", '{"paths":["a"]}', "Reading."),), repairs=repairs
    )
    assert read_reply(repaired.text).decisions == found.decisions


@pytest.mark.parametrize("arguments", ['{"a":1} and', "no", "[1]", '"no"', '{"a":1e999'])
def test_arguments_without_one_reading_stay_a_fault(arguments: str) -> None:
    found, repaired = repair(read_call(arguments))
    assert (faults(found), repaired) == (["decision_malformed"], None)


def test_a_name_that_is_spelled_alike_finds_its_tool() -> None:
    found, repaired = repair(NativeCall("functions.react.read", "{}"))
    assert (found.decisions, found.repairs) == ((CallToolDecision("react.read", "{}"),), ("tool_spelling",))
    assert repaired is not None


def test_a_program_in_another_parameter_is_moved() -> None:
    found, _ = repair(run_call('{"script":"print(1)"}'), text="<think>hm</think>")
    assert (found.code, found.repairs, found.thinking) == ("print(1)", ("code_in_params",), "hm")


def test_a_well_formed_reply_and_an_answer_need_no_repair() -> None:
    assert repair(read_call('{"paths":["a"]}'))[1] is None
    assert repair(text="Yes.") == (ParsedReply(decisions=(CompleteDecision("Yes."),)), None)


@given(st.text(), st.lists(st.tuples(st.sampled_from(["react_read", "complete", "call_tool", "x"]), st.text())))
def test_no_reply_makes_the_reader_fail_and_no_text_becomes_a_call(text: str, calls: list[tuple[str, str]]) -> None:
    found, _ = repair(*(NativeCall(name, arguments) for name, arguments in calls), text=text)
    made = [one for one in found.decisions if isinstance(one, CallToolDecision)]
    assert len(made) <= len(calls)
    assert found.decisions or found.faults
