"""Runs `timeloom model check`: scores a model with the conformance suite and prints the report."""

from collections.abc import Sequence

import click
import msgspec

from timeloom.config.models import model_settings
from timeloom.config.settings import Settings
from timeloom.providers.registry import default_model_name, model_notice, open_model
from timeloom.testing.conformance.cases import GROUPS, load_published_suite
from timeloom.testing.conformance.running import STREAM, CaseResult, ConformanceReport, Selection, run_suite


async def run_check(settings: Settings, selection: Selection, *, as_json: bool, threshold: float | None) -> int:
    """Score the configured model, print the report and return the exit code."""
    _check_names(selection.only)
    name = settings.model or default_model_name({})
    model = open_model(name, model_settings(settings, name))
    if model_warning := model_notice(name):
        click.echo(model_warning, err=True)
    try:
        report = await run_suite(model, selection, on_case=_print_failure)
    finally:
        await model.close()
    click.echo(msgspec.json.encode(report).decode() if as_json else _table(report))
    if not report.has_replies:
        return 1
    return 1 if threshold is not None and min(report.score, report.well_formed) < threshold else 0


def _check_names(names: Sequence[str]) -> None:
    groups = [*GROUPS, STREAM]
    known = {*groups, *(case.id for group in GROUPS for case in load_published_suite().cases(group))}
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(f"{unknown[0]!r} is not a group ({', '.join(groups)}) or a case", param_hint="--only")


def _print_failure(case: CaseResult) -> None:
    if not case.verdict.sensible:
        click.echo(f"{case.id}: {case.verdict.why}", err=True)


def _table(report: ConformanceReport) -> str:
    heads = ("group", "cases", "well-formed", "right tool", "right parameters", "sensible")
    rows = [
        (score.group, *map(str, (score.cases, score.well_formed, score.right_tool, score.right_params, score.sensible)))
        for score in report.scores
    ]
    lines = [f"{report.model}: score {report.score:.0%}, well-formed {report.well_formed:.0%}"] if rows else []
    if rows:
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        lines += ["", *(_line(row, widths) for row in (heads, *rows)), ""]
    lines += [f"{'ok  ' if one.passed else 'FAIL'}  {one.name:<24}{one.seen}".rstrip() for one in report.stream]
    return "\n".join(lines).rstrip()


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
