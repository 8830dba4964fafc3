"""The conformance suite over scripted models: correct replies score, wrong ones do not."""

import asyncio
import json

import pytest

from timeloom.ports.model import ModelError
from timeloom.providers.script import ScriptedModel, Step
from timeloom.testing.conformance.cases import (
    GROUPS,
    ConformanceCase,
    ConformanceSuite,
    ExpectedText,
    load_published_suite,
)
from timeloom.testing.conformance.judging import judge_reply
from timeloom.testing.conformance.running import ConformanceReport, Selection, run_suite
from timeloom.testing.conformance.scenes import build_request


def reply(**decision: object) -> str:
    channels = {"thinking": "hm", "ReactDecisionOutV2": json.dumps(decision)}
    return "\n".join(f"<channel:{name}>\n{text}\n</channel:{name}>" for name, text in channels.items())


def call(tool_id: str, **params: object) -> str:
    return reply(action="call_tool", tool_call={"tool_id": tool_id, "params": params})


def answer(text: str) -> str:
    return reply(action="complete", final_answer=text)


SAVE = ConformanceCase(
    id="save", say="save it", tool="react.write", params={"path": ExpectedText(ends="a.txt", has="a")}
)
SAY = ConformanceCase(id="say", say="say it", tool="answer", answer=ExpectedText(has="Paris", least=2, lacks="London"))
PLAN = ConformanceCase(
    id="plan", say="plan", tool=("react.plan", "answer"), params={"steps": ExpectedText(items=2, any=("tea", "x"))}
)


@pytest.mark.parametrize(
    ("case", "text", "wrong"),
    [
        (SAVE, call("react.write", path="files/A.txt"), ""),
        (SAVE, call("react.write", path="files/b.md"), "path lacks 'a'"),
        (SAVE, call("react.write"), "the parameter path is missing"),
        (SAVE, call("react.read", paths=[]), "react.write is expected, got react.read"),
        (SAVE, answer("no"), "react.write is expected, got answer"),
        (SAY, answer("It is paris."), ""),
        (SAY, answer("Paris"), "the answer has fewer than 2 words"),
        (SAY, answer("Paris, not London"), "the answer has 'London'"),
        (SAY, reply(action="exit", final_answer="In Paris"), ""),
        (PLAN, call("react.plan", steps=["tea", "bed"]), ""),
        (PLAN, call("react.plan", steps=["tea"]), "steps has fewer than 2 items"),
        (PLAN, call("react.plan", steps=["a", "b"]), "steps has none of ('tea', 'x')"),
    ],
)
def test_replies_are_judged_by_rules(case: ConformanceCase, text: str, wrong: str) -> None:
    verdict = judge_reply(case, text)
    assert verdict.well_formed
    assert (verdict.sensible, verdict.why) == (not wrong, wrong)


WRITE_RAW = (
    '<channel:action>{"action":"call_tool","tool_call":{"tool_id":"react.write","params":{"path":"a.txt"}}}'
    "</channel:action>\n<channel:content>\nIt is Paris, of course.\n</channel:content>"
)
COMPLETE_RAW = (
    '<channel:action>{"action":"complete"}</channel:action>\n<channel:final_answer>\nIn Paris\n</channel:final_answer>'
)
KEEP = ConformanceCase(
    id="keep", say="keep it", tool="react.write", params={"content": ExpectedText(has="Paris", ends="course.")}
)


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (KEEP, WRITE_RAW),
        (SAY, "<channel:final_answer>\nIt is Paris.\n</channel:final_answer>"),
        (SAY, COMPLETE_RAW),
    ],
)
def test_replies_with_raw_channels_are_judged_in_the_second_edition(case: ConformanceCase, text: str) -> None:
    assert judge_reply(case, text, edition=2).sensible
    first = judge_reply(case, text)
    assert not first.well_formed
    assert "There is no channel" in first.why or "malformed" in first.why or "no decision" in first.why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (WRITE_RAW[:-9], "ended inside the channel `content`"),
        (WRITE_RAW.replace("react.write", "react.read"), "takes no text `content`"),
    ],
)
def test_raw_channels_that_break_the_contract_are_not_well_formed(text: str, why: str) -> None:
    verdict = judge_reply(KEEP, text, edition=2)
    assert not verdict.well_formed
    assert why in verdict.why


@pytest.mark.parametrize("text", [WRITE_RAW, "<channel:final_answer>\nIt is Paris.\n</channel:final_answer>"])
def test_a_stream_with_raw_channels_passes_all_checks_of_the_second_edition(text: str) -> None:
    step = Step(reply=text, chunk=5, repeat=True)
    report = scored(step, selection=Selection(only=("stream",), edition=2))
    assert [check.name for check in report.stream if not check.passed] == []


@pytest.mark.parametrize(
    "text", ["", "Paris", answer("a") + answer("b"), f"well, {answer('It is Paris')}", answer("a")[:-9]]
)
def test_what_breaks_the_contract_is_not_well_formed(text: str) -> None:
    verdict = judge_reply(SAY, text)
    assert not verdict.well_formed
    assert not verdict.sensible
    assert verdict.why


def test_the_published_set_is_whole() -> None:
    suite = load_published_suite()
    cases = [case for group in GROUPS for case in suite.cases(group)]
    assert [len(suite.cases(group)) for group in GROUPS] == [60, 8, 32]
    assert len({case.id for case in cases}) == 100
    assert all(case.tools for case in (*suite.requests, *suite.recovery))
    for case in cases:
        request = build_request(case, suite.scenes[case.scene])
        assert request.system.count("### react.") == 8
        assert "ANNOUNCE" in str(request.segments[-1])
    texts = [
        "".join(str(one) for one in build_request(case, suite.scenes[case.scene]).segments) for case in suite.recovery
    ]
    assert all("[NOTICE]" in text or "status: failed" in text for text in texts)


def scored(*steps: Step | str, selection: Selection | None = None) -> ConformanceReport:
    suite = ConformanceSuite(
        scenes=load_published_suite().scenes,
        requests=(SAY, SAVE),
        recovery=(PLAN,),
        odd=(ConformanceCase(id="odd", say="?"),),
    )
    return asyncio.run(run_suite(ScriptedModel(list(steps)), selection, suite=suite))


def test_a_report_counts_each_group_and_has_the_stream_checks() -> None:
    report = scored(Step(reply=answer("It is Paris."), chunk=5, repeat=True))
    assert [(score.group, score.cases, score.well_formed, score.sensible) for score in report.scores] == [
        ("requests", 2, 2, 1),
        ("recovery", 1, 1, 1),
        ("odd", 1, 1, 1),
    ]
    assert (report.score, report.well_formed, report.has_replies) == (0.6667, 1.0, True)
    assert [check.name for check in report.stream if not check.passed] == []
    assert len(report.stream) == 8


def test_a_stream_that_is_not_one_is_found_out() -> None:
    report = scored(Step(reply="Paris, of course", repeat=True), selection=Selection(only=("stream",)))
    failed = {check.name for check in report.stream if not check.passed}
    assert failed == {"comes in pieces", "two at once"}
    assert report.cases == ()


def test_a_selection_takes_groups_cases_and_so_many() -> None:
    whole = Step(reply=answer("It is Paris."), repeat=True)
    assert [case.id for case in scored(whole, selection=Selection(only=("odd", "save"))).cases] == ["save", "odd"]
    assert [case.id for case in scored(whole, selection=Selection(limit=1)).cases] == ["say", "plan", "odd"]


def test_a_model_that_fails_now_and_then_is_scored_all_the_same() -> None:
    # The suite asks for the first call of each conversation, so one step answers all cases.
    report = scored(Step(error="overloaded", repeat=True), selection=Selection(only=("requests",)))
    assert [(case.error, case.verdict.well_formed) for case in report.cases] == [("overloaded", False)] * 2
    assert not report.has_replies


def test_a_service_that_is_not_there_ends_the_run() -> None:
    class Absent(ScriptedModel):
        def _step(self, request: object) -> Step:
            raise ModelError("unreachable", "nobody is there")

    with pytest.raises(ModelError, match="nobody"):
        asyncio.run(run_suite(Absent([])))
