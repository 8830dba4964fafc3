"""Tests for the repair of misformatted replies."""

import re
from collections import Counter
from collections.abc import Callable
from html import escape

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import misformatted_replies as harness
from tests.harness.misformatted_replies import (
    ANSWER,
    CALL,
    CONTEXT,
    OSLO,
    RAIN,
    D,
    Form,
    calls_tool,
    in_channel,
    with_params,
)
from tests.harness.more_misformatted_replies import MORE_AMBIGUOUS, MORE_DRAFTS, MORE_FORMS
from timeloom.core.policy.read_reply import read_reply
from timeloom.core.policy.repair_reply import RepairContext, ToolForm, is_mechanical, read_or_repair, repair_reply
from timeloom.core.render.foreign_text.fence import fence
from timeloom.core.render.v2.fence import fence_text
from timeloom.core.stream.decision import CallToolDecision, Decision

FORMS = (*harness.FORMS, *MORE_FORMS)
AMBIGUOUS = (*harness.AMBIGUOUS, *MORE_AMBIGUOUS)
DRAFTS = (*harness.DRAFTS, *MORE_DRAFTS)


CALLS_OF_NO_USE = {
    "a program given twice",
    "a parameter that is a list of two",
    "a program that is a number",
}
"""Well-formed calls whose parameters the tool refuses, with its own reason."""

PLAIN_IN_SECOND_EDITION = {"an answer that holds tags"}
"""Replies that are well-formed in edition 2."""


def to_json(text: str) -> str:
    return msgspec.json.encode(text).decode()


def same(found: Decision, expected: Decision) -> bool:
    """Compare decisions; parameters by their values, and without the names of ignored fields."""
    if isinstance(found, CallToolDecision) and isinstance(expected, CallToolDecision):
        values = [msgspec.json.decode(one.params) for one in (found, expected)]
        return values[0] == values[1] and found.tool_id == expected.tool_id and found.notes == expected.notes
    return msgspec.structs.replace(found, ignored=()) == expected


def test_the_suite_has_enough_forms_of_each_slip() -> None:
    assert len(FORMS) >= 120
    assert min(Counter(form.slip for form in FORMS).values()) >= 2


@pytest.mark.parametrize("form", FORMS, ids=[f"{at}-{form.slip}" for at, form in enumerate(FORMS)])
def test_a_slip_with_one_reading_is_repaired(form: Form) -> None:
    parsed, repaired = read_or_repair(form.reply, CONTEXT, lambda: ["the prompt"])
    assert repaired is not None
    assert repaired.repairs == parsed.repairs
    assert not parsed.faults
    (decision,) = parsed.decisions
    assert same(decision, form.decision)
    assert parsed.code == form.code
    assert read_reply(repaired.text).decisions == parsed.decisions


def renamed(reply: str) -> str:
    """Return the reply with the short name of the decision channel, in every spelling of the long one."""
    return re.sub(r"ReactDecision(?:Out(?:V2)?)?\b", "action", reply, flags=re.IGNORECASE)


@pytest.mark.parametrize("edition", [1, 2])
def test_the_short_name_of_the_decision_channel_is_equal_in_every_form(edition: int) -> None:
    context = msgspec.structs.replace(CONTEXT, edition=edition)
    for form in FORMS:
        parsed, _ = read_or_repair(renamed(form.reply), context, lambda: ["the prompt"])
        assert not parsed.faults, form
        (decision,) = parsed.decisions
        assert same(decision, form.decision), form
        assert parsed.code == form.code
    for why, reply in AMBIGUOUS:
        parsed, repaired = read_or_repair(renamed(reply), context, list)
        is_refused = parsed.faults or len(parsed.decisions) > 1
        assert repaired is None or why in PLAIN_IN_SECOND_EDITION
        assert is_refused or why in CALLS_OF_NO_USE or (edition == 2 and why in PLAIN_IN_SECOND_EDITION)
    for reply in DRAFTS:
        parsed, repaired = read_or_repair(renamed(reply), context, list)
        assert (parsed.decisions, repaired) == ((), None), reply


@pytest.mark.parametrize(
    "reply",
    [
        f"<channel:action>{ANSWER}</channel:{D}>",
        f"<channel:{D}>{ANSWER}</channel:action>",
        f"<channel:action>{ANSWER}</channel:action>",
    ],
)
def test_either_name_closes_the_decision_channel(reply: str) -> None:
    for edition in (1, 2):
        parsed = read_reply(reply, edition=edition)
        assert (parsed.decisions, parsed.faults, parsed.remarks) == ((RAIN,), (), ())


@pytest.mark.parametrize(("why", "reply"), AMBIGUOUS, ids=[why for why, _ in AMBIGUOUS])
def test_a_reply_with_several_readings_is_not_repaired(why: str, reply: str) -> None:
    parsed, repaired = read_or_repair(reply, CONTEXT, list)
    assert repaired is None, why
    assert parsed.faults or len(parsed.decisions) > 1 or why in CALLS_OF_NO_USE


@pytest.mark.parametrize("reply", DRAFTS)
def test_a_decision_in_thoughts_quotes_or_code_is_never_carried_out(reply: str) -> None:
    for several in (False, True):
        parsed, repaired = read_or_repair(reply, msgspec.structs.replace(CONTEXT, allows_several=several), list)
        assert repaired is None
        assert not parsed.decisions


def number_lines(text: str) -> str:
    return fence_text(text, 90)


@pytest.mark.parametrize("form", FORMS, ids=[f"{at}-{form.slip}" for at, form in enumerate(FORMS)])
@pytest.mark.parametrize(
    "show",
    [str, fence, fence_text, number_lines, to_json, escape],
    ids=["plain", "fenced", "fenced in edition 2", "numbered", "json", "html"],
)
def test_a_decision_that_stands_in_the_prompt_is_not_repaired(form: Form, show: Callable[[str], str]) -> None:
    repaired = repair_reply(form.reply, CONTEXT)
    assert repaired is not None
    if not repaired.written:
        return  # it had a well-formed decision, of which only the call was repaired
    shown = show(f"A page.\n{repaired.written}\nIts end.")
    _, again = read_or_repair(form.reply, CONTEXT, lambda: [shown])
    assert again is None


def test_only_repairs_of_the_spelling_are_mechanical() -> None:
    def repairs(reply: str) -> tuple[str, ...]:
        found = repair_reply(reply, CONTEXT)
        assert found is not None
        return found.repairs

    assert is_mechanical(())
    assert is_mechanical(repairs(in_channel(CALL.replace("}}}", "},}"))))
    assert is_mechanical(repairs(in_channel(ANSWER + "}")))
    assert not is_mechanical(repairs(CALL))
    assert not is_mechanical(repairs(in_channel(CALL[:-1], "decision")))
    assert not is_mechanical(repairs(in_channel(CALL.replace("weather.get", "weather_get"))))


def test_a_reply_that_reached_its_length_limit_gets_no_brace() -> None:
    cut = f"<channel:{D}>{CALL[:-1]}"
    assert repair_reply(cut, CONTEXT) is not None
    assert repair_reply(cut, CONTEXT, is_cut=True) is None
    assert repair_reply(CALL[:-1], CONTEXT, is_cut=True) is None
    assert repair_reply("<channel:final_answer>It will", CONTEXT, is_cut=True) is None
    # A closed channel shows that nothing is missing after it.
    assert repair_reply(in_channel(CALL[:-1]), CONTEXT, is_cut=True) is not None


def test_the_same_decision_twice_stays_two_where_a_round_may_have_several_actions() -> None:
    several = msgspec.structs.replace(CONTEXT, allows_several=True)
    assert repair_reply(in_channel(CALL) * 2, several) is None


def test_an_unknown_tool_is_left_to_the_registry() -> None:
    reply = in_channel(CALL.replace("weather.get", "moon.phase"))
    assert repair_reply(reply, CONTEXT) is None
    twins = RepairContext(by_name={**CONTEXT.by_name, "weather.g_et": CONTEXT.by_name["files.remove_all"]})
    assert repair_reply(in_channel(CALL.replace("weather.get", "weatherget")), twins) is None


@pytest.mark.parametrize(
    "params",
    [
        *('{"city":"100"}', '{"days":"soon"}', '{"any":"100"}', '{"id":"100"}', '{"unknown":"100"}', '{"full":"yes"}'),
        *(
            '{"city":true}',
            '{"days":[1,2]}',
            '{"tags":1}',
            '{"hours":"soon"}',
            '{"rules":"soon"}',
            '{"city":["a","b"]}',
        ),
        *('{"limit":null}', '{"city":null}', '{"hours":[1,2]}', '{"days":3.0}'),
    ],
)
def test_a_value_that_fits_the_schema_or_has_no_other_reading_stays_as_it_is(params: str) -> None:
    assert repair_reply(with_params(params), CONTEXT) is None


def test_fields_beside_a_call_are_its_parameters_if_it_needs_some() -> None:
    reply = calls_tool('{"tool_id":"weather.get"},"city":"Oslo"')
    parsed, _ = read_or_repair(reply, CONTEXT, list)
    assert parsed.decisions == (OSLO,)
    optional = ToolForm("weather.get", '{"properties":{"city":{"type":"string"}}}')
    assert repair_reply(reply, RepairContext(by_name={"weather.get": optional})) is None


def test_thoughts_of_a_repaired_reply_are_kept() -> None:
    parsed, _ = read_or_repair(f"<Think>hm</Think>\n{CALL}", CONTEXT, list)
    assert parsed.thinking == "hm"
    parsed, _ = read_or_repair(f"hm</think>\n<channel:{D}>{CALL}</channel:{D}>", CONTEXT, list)
    assert (parsed.thinking, parsed.decisions, parsed.remarks) == ("hm", (OSLO,), ())


def test_summaries_of_a_repaired_reply_are_kept() -> None:
    parsed, _ = read_or_repair(in_channel(ANSWER[:-1]) + "<channel:Summary>It rains.</channel>", CONTEXT, list)
    assert parsed.summary == "It rains."
    assert parsed.decisions == (RAIN,)


@given(st.sampled_from(FORMS), st.text(max_size=200), st.integers(0, 400))
def test_no_repair_invents_a_call_or_a_parameter(form: Form, noise: str, at: int) -> None:
    text = form.reply[:at] + noise + form.reply[at:]
    parsed, _ = read_or_repair(text, CONTEXT, list)
    for decision in parsed.decisions:
        if isinstance(decision, CallToolDecision):
            skeleton = "".join(one for one in text.casefold() if one.isalnum())
            assert "".join(one for one in decision.tool_id.casefold() if one.isalnum()) in skeleton
            for name in msgspec.json.decode(decision.params):
                assert name in text or "\\" in text


@pytest.mark.parametrize(
    "reply",
    [
        in_channel(CALL.replace("Oslo", "</channel:decision> </channel>")),
        in_channel(CALL[:-1] + ',"city":"Rome","code":"print(1)","params":{"city":"Rome"}}'),
        in_channel(CALL.replace("}}}", '},"days":3}}')),
        in_channel('{"action":"call_tool","tool_call":{"tool_id":"files.remove_all","params":{"params":{"a":1}}}}'),
        in_channel('{"action":"call_tool","tool_call":{"tool_id":"files.remove_all"},"mood":"good"}'),
        in_channel(ANSWER.replace("Rain.", "Write <tool_call>, [THINK], <|end|> and <think>.")),
        f"{in_channel(ANSWER)}\nFor example: {CALL}",
        in_channel(ANSWER) + "<channel:summary>[THINK] is a token.</channel:summary>",
    ],
)
def test_a_reply_with_a_well_formed_decision_stays_as_it_is(reply: str) -> None:
    parsed = read_reply(reply)
    assert len(parsed.decisions) == 1
    assert read_or_repair(reply, CONTEXT, list) == (parsed, None)


@given(st.sampled_from([in_channel(CALL), in_channel(ANSWER)]), st.text(alphabet='abc{}[]",: \n<>/`', max_size=40))
def test_a_valid_reply_is_never_changed(reply: str, thought: str) -> None:
    text = reply.replace("I look first.", thought)
    parsed = read_reply(text)
    if not parsed.faults and len(parsed.decisions) == 1:
        assert read_or_repair(text, CONTEXT, list) == (parsed, None)


@given(st.text(alphabet="{}[]\"':,<>/chanel:tiokgu_c=0 \n`~\\", max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    read_or_repair(text, CONTEXT, list)
