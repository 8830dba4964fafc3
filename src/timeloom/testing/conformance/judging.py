"""Judges the reply to a case by fixed rules."""

from typing import cast

import msgspec

from timeloom.core.policy.read_native import read_native_reply
from timeloom.core.policy.read_reply import ParsedReply, read_reply
from timeloom.core.stream.decision import CallToolDecision, CompleteDecision, ExitDecision
from timeloom.core.stream.native_reply import NativeReply
from timeloom.testing.conformance.cases import ConformanceCase, ExpectedText
from timeloom.testing.conformance.scenes import tool_forms


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a reply. Unchecked aspects count as right; `why` names the first mistake."""

    well_formed: bool
    right_tool: bool
    right_params: bool
    did: str = ""
    why: str = ""

    @property
    def sensible(self) -> bool:
        """Whether the reply is right in all respects."""
        return self.well_formed and self.right_tool and self.right_params


def judge_reply(case: ConformanceCase, reply: str, edition: int = 1) -> Verdict:
    """Return the verdict on the whole text of a reply to a prompt of that edition."""
    return _judge(case, read_reply(reply, edition=edition, tools=tool_forms(edition)))


def judge_native_reply(case: ConformanceCase, reply: NativeReply) -> Verdict:
    """Return the verdict on a reply of native tool calling."""
    return _judge(case, read_native_reply(reply))


def _judge(case: ConformanceCase, read: ParsedReply) -> Verdict:
    problems = [remark.text for remark in (*read.faults, *read.remarks)]
    if len(read.decisions) != 1 or problems:
        why = problems[0] if problems else f"one decision is expected, got {len(read.decisions)}"
        return Verdict(well_formed=False, right_tool=False, right_params=False, why=why)
    match read.decisions[0]:
        case CallToolDecision(tool_id=did, params=params):
            wrong = _find_wrong_param(case, params)
        case CompleteDecision(final_answer=answer) | ExitDecision(final_answer=answer):
            did, wrong = "answer", _find_mismatch(answer, case.answer, "the answer")
    if case.tools and did not in case.tools:
        why = f"{' or '.join(case.tools)} is expected, got {did}"
        return Verdict(well_formed=True, right_tool=False, right_params=False, did=did, why=why)
    return Verdict(well_formed=True, right_tool=True, right_params=not wrong, did=did, why=wrong)


def _find_wrong_param(case: ConformanceCase, params: str) -> str:
    given = msgspec.json.decode(params, type=dict[str, object])
    for name, expected in case.params.items():
        if name not in given:
            return f"the parameter {name} is missing"
        if wrong := _find_mismatch(given[name], expected, name):
            return wrong
    return ""


def _find_mismatch(value: object, expected: ExpectedText, name: str) -> str:
    """Return the first mismatch between the value and the expectation; empty if there is none."""
    listed = isinstance(value, list)
    items = cast("list[object]", value) if listed else []
    text = " ".join(map(str, items)) if listed else f"{value}"
    low = text.lower()
    wanted = (expected.has, expected.ends)
    checks = (
        (expected.has.lower() in low, f"lacks {wanted[0]!r}"),
        (not expected.any or any(word.lower() in low for word in expected.any), f"has none of {expected.any}"),
        (low.rstrip().endswith(expected.ends.lower()), f"does not end with {wanted[1]!r}"),
        (not expected.lacks or expected.lacks.lower() not in low, f"has {expected.lacks!r}"),
        (len(text.split()) >= expected.least, f"has fewer than {expected.least} words"),
        (len(items) >= expected.items, f"has fewer than {expected.items} items"),
    )
    return next((f"{name} {why}" for passed, why in checks if not passed), "")
