"""Runs `timeloom model check`: scores a model with the conformance suite and prints the report."""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import click
import msgspec

from timeloom.config.models import model_settings
from timeloom.config.settings import Settings
from timeloom.core.blocks.round import ReplyProtocol
from timeloom.core.codes import CodedError
from timeloom.ports.model import Model, supports_native_tools
from timeloom.providers.registry import default_model_name, model_notice, open_model
from timeloom.testing.conformance.cases import GROUPS, load_published_suite
from timeloom.testing.conformance.running import (
    STREAM,
    CaseResult,
    ConformanceReport,
    GroupScore,
    Selection,
    run_suite,
)


async def run_check(
    settings: Settings,
    selection: Selection,
    protocol: Literal["channels", "native", "both"] | None,
    *,
    as_json: bool,
    threshold: float | None,
) -> int:
    """Score the configured model, print the report and return the exit code."""
    _check_names(selection.only)
    name = settings.model or default_model_name({})
    model = open_model(name, model_settings(settings, name))
    if model_warning := model_notice(name):
        click.echo(model_warning, err=True)
    reports: list[ConformanceReport] = []
    try:
        protocols = _protocols(model, protocol)
        for one in protocols:
            on_case = partial(_print_failure, f"{one} " if len(protocols) > 1 else "")
            chosen = msgspec.structs.replace(selection, protocol=one)
            reports.append(await run_suite(model, chosen, on_case=on_case))
    finally:
        await model.close()
    if as_json:
        click.echo(msgspec.json.encode({"reports": reports} if len(reports) > 1 else reports[0]).decode())
    else:
        click.echo(_table(reports))
    if not any(report.has_replies for report in reports):
        return 1
    best = max(min(report.score, report.well_formed) for report in reports)
    return 1 if threshold is not None and best < threshold else 0


def _protocols(model: Model, wanted: Literal["channels", "native", "both"] | None) -> tuple[ReplyProtocol, ...]:
    """Return the protocols to score; raises if the model cannot do a wanted one."""
    is_native = supports_native_tools(model)
    if wanted in ("native", "both") and not is_native:
        raise CodedError("setting_invalid", f"{model.name} has no native tool calling; use --protocol channels")
    if wanted in ("channels", "native"):
        return (wanted,)
    return ("channels", "native") if is_native else ("channels",)


def _check_names(names: Sequence[str]) -> None:
    groups = [*GROUPS, STREAM]
    known = {*groups, *(case.id for group in GROUPS for case in load_published_suite().cases(group))}
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(f"{unknown[0]!r} is not a group ({', '.join(groups)}) or a case", param_hint="--only")


def _print_failure(label: str, case: CaseResult) -> None:
    if not case.verdict.sensible:
        click.echo(f"{label}{case.id}: {case.verdict.why}", err=True)


def _table(reports: Sequence[ConformanceReport]) -> str:
    """Return the scores; with two protocols, each cell has both numbers."""
    heads = ("group", "cases", "well-formed", "right tool", "right parameters", "sensible")
    several = len(reports) > 1
    rows = [_row(scores) for scores in zip(*(report.scores for report in reports), strict=True)]
    lines = [_headline(report, with_protocol=several) for report in reports] if rows else []
    if rows:
        if several:
            heads = (*heads[:2], *(f"{head} ({'/'.join(one.protocol for one in reports)})" for head in heads[2:]))
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        lines += ["", *(_line(row, widths) for row in (heads, *rows)), ""]
    for report in reports:
        label = f"{report.protocol:<10}" if several else ""
        lines += [
            f"{'ok  ' if one.passed else 'FAIL'}  {label}{one.name:<24}{one.seen}".rstrip() for one in report.stream
        ]
    return "\n".join(lines).rstrip()


def _headline(report: ConformanceReport, *, with_protocol: bool) -> str:
    name = f"{report.model}, {report.protocol}" if with_protocol else report.model
    return f"{name}: score {report.score:.0%}, well-formed {report.well_formed:.0%}"


def _row(scores: Sequence[GroupScore]) -> tuple[str, ...]:
    """Return the numbers of one group, those of several protocols in one cell."""
    numbers = [(one.well_formed, one.right_tool, one.right_params, one.sensible) for one in scores]
    return (scores[0].group, str(scores[0].cases), *("/".join(map(str, cell)) for cell in zip(*numbers, strict=True)))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
