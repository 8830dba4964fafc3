"""The conformance suite under native tool calling, over the real adapters and the scripted endpoint."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.harness.native import DIALECTS, Dialect, native_stage, said
from tests.harness.replies import answers, calls
from tests.unit.testing.test_model_endpoint import both, served
from timeloom.core.stream.native_reply import NativeCall
from timeloom.testing import ScriptedModel
from timeloom.testing.conformance.cases import CaseScene, ConformanceCase
from timeloom.testing.conformance.running import Selection, run_suite
from timeloom.testing.conformance.scenes import build_request
from timeloom.testing.conformance.streaming import fetch_reply


@pytest.mark.parametrize("dialect", DIALECTS)
def test_native_replies_are_judged_as_those_in_channels(tmp_path: Path, dialect: Dialect) -> None:
    async def check() -> None:
        replies = (said(text="It is Paris."), said(("react_plan", "{")))
        async with native_stage(tmp_path, dialect, *replies) as stage:
            selection = Selection(only=("answer-capital", "plan-trip"), protocol="native")
            report = await run_suite(stage.model, selection)
            assert report.protocol == "native"
            assert [one.verdict.well_formed for one in report.cases] == [True, False]
            assert report.cases[1].reply == "react_plan {"
            assert all("tools" in body for body in stage.bodies)

    asyncio.run(check())


def test_the_stream_checks_of_native_replies_need_no_channels(tmp_path: Path) -> None:
    async def check() -> None:
        async with native_stage(tmp_path, "openai", said(text="It is Paris.")) as stage:
            report = await run_suite(stage.model, Selection(only=("stream",), protocol="native"))
            assert {one.name: one.passed for one in report.stream} == {
                "comes in pieces": True,
                "says why it ended": True,
                "reports its usage": True,
                "can be given up": True,
                "two at once": True,
            }

    asyncio.run(check())


def test_the_scripted_endpoint_turns_decisions_into_calls_of_the_functions() -> None:
    program = calls("exec_tools.run", "I run it.", n=1) + "<channel:code>print(1)</channel:code>"
    steps = [
        calls("react.read", "I read.", paths=["a"]),
        program,
        answers("Yes.", "Why?", summary="Goal."),
        answers("Yes."),
        '<channel:ReactDecisionOutV2>{"action":"exit","final_answer":"No."}</channel:ReactDecisionOutV2>',
    ]
    arguments = '{"tool_id":"exec_tools.run","params":{"n":1,"code":"print(1)"}}'
    ended = '{"final_answer":"Yes.","suggested_followups":["Why?"],"summary":"Goal."}'
    left = '{"final_answer":"No.","suggested_followups":[],"summary":"","outcome":"exit"}'
    request = build_request(ConformanceCase(id="x", say="x"), CaseScene(), protocol="native")

    async def check() -> None:
        async with served(ScriptedModel(steps)) as url:
            for model in both(url):
                found = [await fetch_reply(model, replace(request, number=n)) for n in range(len(steps))]
                assert [(one.text, one.calls) for one in found] == [
                    ("I read.", (NativeCall("react_read", '{"paths":["a"]}', "react.read"),)),
                    ("I run it.", (NativeCall("call_tool", arguments),)),
                    ("", (NativeCall("complete", ended),)),
                    ("Yes.", ()),
                    ("", (NativeCall("complete", left),)),
                ]
                await model.close()

    asyncio.run(check())
