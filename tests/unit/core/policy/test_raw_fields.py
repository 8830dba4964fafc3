"""Tests for raw channels that hold fields of a decision, in edition 2."""

import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.harness import misformatted_replies, more_misformatted_replies
from tests.harness.misformatted_replies import PROGRAM, Form
from tests.harness.raw_channel_replies import (
    ABC,
    ANSWER,
    COMPLETE,
    CONTENT,
    QUOTED_TEXTS,
    RAW_AMBIGUOUS,
    RAW_CONTEXT,
    RAW_DRAFTS,
    RAW_FORMS,
    VALID,
    WRITE,
    action,
    raw,
)
from tests.unit.core.policy.test_repair_reply import CALLS_OF_NO_USE, PLAIN_IN_SECOND_EDITION, same
from timeloom.core.policy.read_reply import ParsedReply, read_reply
from timeloom.core.policy.repair_reply import read_or_repair, repair_reply
from timeloom.core.render.foreign_text.fence import escape, unescape
from timeloom.core.stream.decision import MAX_DECISION_CHARS, CallToolDecision, Decision
from timeloom.core.stream.raw_text import escape_tags

FIRST_EDITION = msgspec.structs.replace(RAW_CONTEXT, edition=1)
FRAGMENTS = ["<channel:content>", "</channel:content>", "</~channel:", "<~~channel:x", "[[S:1]]", "~", "\r", "\n", "a"]
TEXTS = (
    st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=8)
    .map("".join)
    .map(lambda text: text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
)


def read(text: str) -> ParsedReply:
    return RAW_CONTEXT.read(text)


def same_decisions(found: tuple[Decision, ...], expected: tuple[Decision, ...]) -> bool:
    return len(found) == len(expected) and all(map(same, found, expected))


@pytest.mark.parametrize(("reply", "decisions"), VALID)
def test_raw_channels_fill_the_fields_of_their_actions(reply: str, decisions: tuple[Decision, ...]) -> None:
    parsed = read(reply)
    assert same_decisions(parsed.decisions, decisions)
    assert (parsed.faults, parsed.remarks) == ((), ())
    assert read_or_repair(reply, RAW_CONTEXT, list) == (parsed, None)


@pytest.mark.parametrize("reply", [reply for reply, _ in VALID])
def test_the_first_edition_reports_raw_channels_as_undeclared(reply: str) -> None:
    parsed = read_reply(reply)
    assert "protocol_violation.undeclared_channel" in {issue.code for issue in parsed.remarks}
    assert parsed.filled == ()


@pytest.mark.parametrize("form", RAW_FORMS, ids=[f"{at}-{form.slip}" for at, form in enumerate(RAW_FORMS)])
def test_a_slip_in_a_raw_channel_with_one_reading_is_repaired(form: Form) -> None:
    parsed, repaired = read_or_repair(form.reply, RAW_CONTEXT, lambda: ["the prompt"])
    assert repaired is not None
    assert not parsed.faults
    (decision,) = parsed.decisions
    assert same(decision, form.decision)
    assert parsed.code == form.code
    # The recorded text is read in the same way by every edition and without the tools.
    for edition in (1, 2):
        assert read_reply(repaired.text, edition=edition).decisions == parsed.decisions


@pytest.mark.parametrize(("why", "reply"), RAW_AMBIGUOUS, ids=[why for why, _ in RAW_AMBIGUOUS])
def test_raw_channels_with_several_readings_are_refused_with_a_reason(why: str, reply: str) -> None:
    parsed, repaired = read_or_repair(reply, RAW_CONTEXT, list)
    assert repaired is None, why
    assert parsed.faults
    assert all(fault.text for fault in parsed.faults)


@pytest.mark.parametrize("reply", RAW_DRAFTS)
def test_a_raw_channel_in_thoughts_quotes_or_text_is_never_carried_out(reply: str) -> None:
    for several in (False, True):
        parsed, repaired = read_or_repair(reply, msgspec.structs.replace(RAW_CONTEXT, allows_several=several), list)
        assert repaired is None
        assert not parsed.decisions


@pytest.mark.parametrize("reply", QUOTED_TEXTS)
def test_a_quoted_text_does_not_become_a_parameter(reply: str) -> None:
    parsed, repaired = read_or_repair(reply, RAW_CONTEXT, list)
    assert repaired is None
    assert parsed.faults[0].code == "protocol_violation.channel_unused"


@pytest.mark.parametrize("form", (*misformatted_replies.FORMS, *more_misformatted_replies.MORE_FORMS))
def test_the_second_edition_repairs_every_slip_of_the_first(form: Form) -> None:
    parsed, _ = read_or_repair(form.reply, RAW_CONTEXT, lambda: ["the prompt"])
    assert not parsed.faults
    (decision,) = parsed.decisions
    assert same(decision, form.decision)
    assert parsed.code == form.code


@pytest.mark.parametrize(("why", "reply"), (*misformatted_replies.AMBIGUOUS, *more_misformatted_replies.MORE_AMBIGUOUS))
def test_the_second_edition_refuses_what_the_first_does(why: str, reply: str) -> None:
    parsed, repaired = read_or_repair(reply, RAW_CONTEXT, list)
    if why in PLAIN_IN_SECOND_EDITION:
        assert not parsed.faults
        return
    assert repaired is None, why
    assert parsed.faults or len(parsed.decisions) > 1 or why in CALLS_OF_NO_USE


@pytest.mark.parametrize("reply", (*misformatted_replies.DRAFTS, *more_misformatted_replies.MORE_DRAFTS))
def test_the_second_edition_carries_out_no_draft(reply: str) -> None:
    parsed, repaired = read_or_repair(reply, RAW_CONTEXT, list)
    assert repaired is None
    assert not parsed.decisions


def test_an_unclosed_text_of_a_reply_at_its_length_limit_is_refused() -> None:
    program = action(PROGRAM % "{}") + "<channel:code>\nprint(1)"
    for reply in (action(WRITE) + "<channel:content>\nabc", "<channel:final_answer>\nRain.", program):
        assert repair_reply(reply, RAW_CONTEXT) is not None
        assert repair_reply(reply, RAW_CONTEXT, is_cut=True) is None
        parsed, _ = read_or_repair(reply, RAW_CONTEXT, list, is_cut=True)
        assert [fault.code for fault in parsed.faults] == ["protocol_violation.channel_unclosed"]
    closed = action(WRITE) + "<channel:content>\nabc\n</Channel:content>"
    assert repair_reply(closed, RAW_CONTEXT, is_cut=True) is not None


@pytest.mark.parametrize("form", [form for form in RAW_FORMS if form.slip in ("close_tag", "open_tag", "order")])
def test_a_misspelled_text_that_stands_in_the_prompt_is_not_repaired(form: Form) -> None:
    repaired = repair_reply(form.reply, RAW_CONTEXT)
    assert repaired is not None
    if not repaired.params:
        return  # an answer or notes, which have no effect
    _, again = read_or_repair(form.reply, RAW_CONTEXT, lambda: [f"A page.\n{repaired.params[0]}\nIts end."])
    assert again is None


def test_a_text_without_letters_does_not_count_as_standing_in_the_prompt() -> None:
    _, repaired = read_or_repair(raw("content", "---") + action(WRITE), RAW_CONTEXT, lambda: ["---"])
    assert repaired is not None


@given(TEXTS)
@example("\r")
@example("\n\n")
def test_any_text_can_be_a_parameter(text: str) -> None:
    (decision,) = read(action(WRITE) + raw("content", escape(text))).decisions
    assert isinstance(decision, CallToolDecision)
    assert unescape(json.loads(decision.params)["content"]) == text


@given(TEXTS.filter(str.strip))
def test_any_text_can_be_an_answer(text: str) -> None:
    for reply in (raw("final_answer", escape_tags(text)), action(COMPLETE) + raw("final_answer", escape_tags(text))):
        (decision,) = read(reply).decisions
        assert not isinstance(decision, CallToolDecision)
        assert decision.final_answer == text


@given(TEXTS, TEXTS)
def test_both_forms_of_a_reply_have_the_same_decision(content: str, notes: str) -> None:
    params = {"path": "a.md", "content": escape(content)}
    call = {"tool_id": "react.write", "params": params}
    in_json = action(json.dumps({"action": "call_tool", "notes": notes, "tool_call": call}))
    in_channels = raw("notes", escape_tags(notes)) + action(WRITE) + raw("content", escape(content))
    (one,), (other,) = read(in_json).decisions, read(in_channels).decisions
    assert same(one, other)


def test_a_decision_with_its_channels_has_a_longest_length() -> None:
    parsed = read(raw("final_answer", "x" * MAX_DECISION_CHARS))
    assert parsed.faults[0].code == "protocol_violation.decision_malformed"
    parsed = read(action(WRITE) + raw("content", "x" * MAX_DECISION_CHARS))
    assert parsed.faults[0].code == "protocol_violation.decision_malformed"


def test_messages_of_the_second_edition_teach_the_short_name() -> None:
    parsed = read("Rain.")
    assert "channel action" in parsed.faults[0].text
    assert "`<channel:action>`" in parsed.remarks[0].text
    assert "ReactDecisionOutV2" not in parsed.remarks[0].text
    (remark,) = read(f"<channel:action>{COMPLETE}").remarks
    assert "`</channel:action>`" in remark.text


@given(st.sampled_from(RAW_FORMS), st.text(max_size=60), st.integers(0, 300))
def test_no_repair_invents_a_call_or_a_text(form: Form, noise: str, at: int) -> None:
    text = form.reply[:at] + noise + form.reply[at:]
    parsed, _ = read_or_repair(text, RAW_CONTEXT, list)
    for decision in parsed.decisions:
        texts = [decision.params] if isinstance(decision, CallToolDecision) else [decision.final_answer]
        known = "".join(one for one in text.casefold() if one.isalnum())
        for one in texts:
            if '"' not in one and "\\" not in one:
                assert "".join(char for char in one.casefold() if char.isalnum()) in known


@given(st.sampled_from([reply for reply, _ in VALID]), st.text(alphabet='abc{}[]",: \n<>/`', max_size=40))
def test_a_valid_reply_with_raw_channels_is_never_changed(reply: str, thought: str) -> None:
    text = f"<channel:thinking>{thought}</channel:thinking>\n{reply}"
    parsed = read(text)
    if not parsed.faults and len(parsed.decisions) == 1:
        assert read_or_repair(text, RAW_CONTEXT, list) == (parsed, None)


@given(st.text(alphabet="{}[]\"':,<>/chanel:tiopkgu_w=0 \n`~\\", max_size=200), st.sampled_from((ANSWER, CONTENT, "")))
def test_any_text_with_raw_channels_is_read_without_an_error(text: str, more: str) -> None:
    for reply in (text + more, more + text):
        read_or_repair(reply, RAW_CONTEXT, list)


def test_the_first_edition_ignores_raw_channels() -> None:
    parsed, repaired = read_or_repair(action(WRITE) + CONTENT, FIRST_EDITION, list)
    assert repaired is None
    assert parsed.decisions != (ABC,)


@pytest.mark.parametrize(("edition", "is_read"), [(1, False), (2, False), (3, True)])
def test_edition_3_reads_a_call_that_stands_alone(edition: int, is_read: bool) -> None:
    reply = '<channel:action>{"tool_id":"a.b","params":{}}</channel:action>'
    parsed = read_reply(reply, edition=edition)
    assert bool(parsed.decisions) == is_read
    assert bool(parsed.faults) != is_read
