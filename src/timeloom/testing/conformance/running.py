"""Runs the conformance suite: each case once, with a verdict and scores."""

import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from timeloom.core.blocks.round import ReplyProtocol
from timeloom.ports.model import Model, ModelError
from timeloom.testing.conformance.cases import GROUPS, ConformanceCase, ConformanceSuite, Group, load_published_suite
from timeloom.testing.conformance.judging import Verdict, judge_native_reply, judge_reply
from timeloom.testing.conformance.scenes import build_request
from timeloom.testing.conformance.streaming import StreamCheck, fetch_reply, stream_checks

STREAM: Final = "stream"
"""The name that selects the stream checks, in addition to the groups of cases."""


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """A case with its verdict; `error` is the kind of the model error if the model did not answer."""

    id: str
    group: Group
    verdict: Verdict
    reply: str = ""
    error: str = ""
    seconds: float = 0.0


class GroupScore(msgspec.Struct, frozen=True, kw_only=True):
    """The number of right cases of a group in each respect."""

    group: str
    cases: int
    well_formed: int
    right_tool: int
    right_params: int
    sensible: int


class ConformanceReport(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of a model. `score` is the share of sensible replies outside the group `odd`, from 0 to 1."""

    model: str
    score: float
    well_formed: float
    scores: tuple[GroupScore, ...]
    stream: tuple[StreamCheck, ...]
    cases: tuple[CaseResult, ...]
    protocol: ReplyProtocol = "channels"
    edition: int = 1

    @property
    def has_replies(self) -> bool:
        """Whether the model answered at least one case or stream check."""
        return any(not case.error for case in self.cases) or bool(self.stream)


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The cases to run: `only` lists groups, `stream` or case ids; `limit` bounds the cases of each group."""

    only: tuple[str, ...] = ()
    limit: int | None = None
    edition: int = 1
    """The edition in which prompts are written and replies are read."""
    protocol: ReplyProtocol = "channels"
    """How the model is asked to state its decisions; `native` needs a `NativeToolModel`."""

    def includes(self, case: ConformanceCase, group: Group) -> bool:
        """Whether that case is selected."""
        return not self.only or group in self.only or case.id in self.only


async def run_suite(
    model: Model,
    selection: Selection | None = None,
    *,
    suite: ConformanceSuite | None = None,
    on_case: Callable[[CaseResult], None] | None = None,
) -> ConformanceReport:
    """Run the selected cases; raises `ModelError` if the service is unreachable or rejects the API key."""
    selection, suite = selection or Selection(), suite or load_published_suite()
    results: list[CaseResult] = []
    for group in GROUPS:
        cases = [case for case in suite.cases(group) if selection.includes(case, group)]
        for case in cases[: selection.limit]:
            results.append(await _run_case(model, case, group, suite, selection))
            if on_case:
                on_case(results[-1])
    stream: list[StreamCheck] = []
    if not selection.only or STREAM in selection.only:
        # Uses a case with a prose answer, because a short tool call may arrive in one piece.
        prose = next((case for case in suite.requests if "answer" in case.tools), suite.requests[0])
        request = build_request(prose, suite.scenes[prose.scene], selection.edition, selection.protocol)
        stream = await stream_checks(model, request, selection.edition)
    report = _report(model.name, results, stream)
    return msgspec.structs.replace(report, protocol=selection.protocol, edition=selection.edition)


async def _run_case(
    model: Model, case: ConformanceCase, group: Group, suite: ConformanceSuite, selection: Selection
) -> CaseResult:
    started = time.monotonic()
    try:
        request = build_request(case, suite.scenes[case.scene], selection.edition, selection.protocol)
        reply = await fetch_reply(model, request)
    except ModelError as error:
        if error.kind in ("unauthorized", "unreachable"):
            raise
        failed = Verdict(well_formed=False, right_tool=False, right_params=False, why=str(error))
        return CaseResult(id=case.id, group=group, verdict=failed, error=error.kind)
    took = time.monotonic() - started
    if selection.protocol == "native":
        text, verdict = reply.native.as_text(), judge_native_reply(case, reply.native)
    else:
        text, verdict = reply.text, judge_reply(case, reply.text, selection.edition)
    return CaseResult(id=case.id, group=group, verdict=verdict, reply=text, seconds=round(took, 3))


def _report(name: str, results: Sequence[CaseResult], stream: Sequence[StreamCheck]) -> ConformanceReport:
    scores = [_score(group, [case for case in results if case.group == group]) for group in GROUPS]
    aimed = [case for case in results if case.group != "odd"]
    return ConformanceReport(
        model=name,
        score=_share([case.verdict.sensible for case in aimed]),
        well_formed=_share([case.verdict.well_formed for case in results]),
        scores=tuple(score for score in scores if score.cases),
        stream=tuple(stream),
        cases=tuple(results),
    )


def _score(group: Group, cases: Sequence[CaseResult]) -> GroupScore:
    verdicts = [case.verdict for case in cases]
    return GroupScore(
        group=group,
        cases=len(verdicts),
        well_formed=sum(verdict.well_formed for verdict in verdicts),
        right_tool=sum(verdict.right_tool for verdict in verdicts),
        right_params=sum(verdict.right_params for verdict in verdicts),
        sensible=sum(verdict.sensible for verdict in verdicts),
    )


def _share(passed: Sequence[bool]) -> float:
    return round(sum(passed) / len(passed), 4) if passed else 0.0
