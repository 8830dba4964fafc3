"""Runs `timeloom replay --from`: reruns a conversation with another model and prints both runs."""

import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec.structs import replace

from timeloom.app import AgentSettings, ModelPool, build_turn_runner, open_tools
from timeloom.cli.chat.conversations import with_default_model
from timeloom.cli.chat.display.format import format_count, format_duration
from timeloom.cli.command import open_existing_store
from timeloom.cli.sanitize import one_line
from timeloom.config.settings import Settings
from timeloom.config.signing import open_signer
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.store import Store
from timeloom.runtime.rerun.rerun import RerunResult, RerunSettings, rerun_conversation
from timeloom.runtime.rerun.trajectory import CallTrace, Effort, RoundPair, RoundTrace, TurnPair
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnRunner

DECISION_COLUMNS: Final = 50
"""Columns of a decision. Fewer hide the difference between two calls; more wrap on a terminal."""

_ORIGINS: Final = {"recorded": "", "run": "", "": "", "live": " (live)", "not_recorded": " (not recorded)"}


class RerunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a re-run: the entry to start from, and how to run."""

    seq: int
    live_tools: bool
    keep: bool
    most_turns: int | None


def rerun_options(run: Callable[..., Awaitable[int]]) -> Callable[..., Awaitable[int]]:
    """Add the options of a re-run to a command and pass them as its first argument; None without `--from`."""

    @wraps(run)
    async def call(*args: object, **kwargs: object) -> int:
        typed = msgspec.convert({name: kwargs.pop(name) for name in RerunOptions.__struct_fields__}, _RerunArguments)
        if typed.seq is not None:
            return await run(RerunOptions(**msgspec.structs.asdict(typed)), *args, **kwargs)
        if typed.live_tools or typed.keep or typed.most_turns:
            raise click.UsageError("--live-tools, --keep and --turns need --from")
        return await run(None, *args, **kwargs)

    options = (
        click.option("--from", "seq", type=click.IntRange(1), metavar="SEQ", help="Run again what follows this entry."),
        click.option(
            "--live-tools", is_flag=True, help="With --from: run calls that were not recorded; implies --keep."
        ),
        click.option("--keep", is_flag=True, help="With --from: keep the fork as a new conversation."),
        click.option("--turns", "most_turns", type=click.IntRange(1), help="With --from: run at most N turns."),
    )
    decorated: Callable[..., Awaitable[int]] = call
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


class _RerunArguments(msgspec.Struct):
    seq: int | None
    live_tools: bool
    keep: bool
    most_turns: int | None


async def run_rerun(settings: Settings, only: str | None, options: RerunOptions, *, as_json: bool) -> int:
    """Rerun the conversation and print the comparison; returns 1 if the run failed or waits for approval."""
    settings = with_default_model(settings)
    async with (
        ModelPool(settings) as models,
        open_tools(settings) as tools,
        open_existing_store(settings.data_dir, open_signer(settings)) as store,
    ):
        model, side = models.get(settings.model), replace(models.get_side_models(settings.model), title=None)

        def opened(session: Session, data_dir: Path) -> TurnRunner:
            setting = replace(AgentSettings.from_settings(settings), data_dir=data_dir)
            return build_turn_runner(session, model, setting, lambda _: None, tools, side)

        rerunning = RerunSettings(
            store=store,
            data_dir=settings.data_dir,
            make_turn_runner=opened,
            clock=SystemClock(),
            ids=RandomIds(),
            live_tools=options.live_tools,
            keep=options.keep,
            max_turns=options.most_turns,
            on_fork=lambda fork: click.echo(f"rerun on the fork {fork}", err=True),
        )
        found = await rerun_conversation(rerunning, await _find_conversation(store, only), options.seq)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    else:
        click.echo("\n".join(_format_report(found)))
    failed = any(turn.rerun_end in ("provider_error", "runtime_error") for turn in found.turns)
    return 1 if found.waits or failed else 0


async def _find_conversation(store: Store, only: str | None) -> ConversationId:
    """Return the conversation `only`, or the newest."""
    if only is not None:
        return (await store.info(ConversationId(only))).id
    newest = ""
    while page := await store.conversation_ids(after=newest):
        newest = page[-1]
    if not newest:
        raise CodedError("conversation_unknown", "there is no conversation yet")
    return ConversationId(newest)


def _format_report(found: RerunResult) -> list[str]:
    point = found.forked_from
    where = f"{point.conversation_id} from entry {point.seq}"
    if point.seq != found.asked_for_seq:
        where += f", the last entry up to {found.asked_for_seq} where the model can be called"
    recorded = ", ".join(one_line(name, 60) for name in found.recorded_models)
    lines = [where, f"recorded: {recorded}", f"re-run:   {one_line(found.model, 60)}", ""]
    for turn in found.turns:
        lines += [*_format_turn(turn), ""]
    lines += [_format_total("recorded", found.recorded), _format_total("re-run", found.rerun), _verdict(found)]
    if found.unsaid:
        lines.append(f"Not replayed, because the turn had already ended: {format_count(found.unsaid, 'event')}.")
    if found.waits:
        lines.append(f"The re-run waits for approval{f': timeloom approve {found.kept}' if found.kept else ''}.")
    if found.kept:
        lines.append(f"Kept as {found.kept}.")
    return lines


_HEADINGS: Final = (
    f"{'round':>5}  {'':<8}  {'decision':<{DECISION_COLUMNS}} {'in':>8} {'cached':>8} "
    f"{'out':>7} {'cost':>11} {'time':>9}"
)


def _format_turn(turn: TurnPair) -> list[str]:
    ends = f"ended: {turn.recorded_end or '-'} / {turn.rerun_end or '-'}"
    lines = [f"{turn.turn_id}  {one_line(turn.prompt, 60)}".rstrip(), _HEADINGS]
    for pair in turn.rounds:
        lines += _format_round(pair)
    return [*lines, ends]


def _format_round(pair: RoundPair) -> list[str]:
    recorded = _format_side("recorded", pair.recorded) if pair.recorded else []
    rerun_side = _format_side("re-run", pair.rerun, same=pair.verdict == "same") if pair.rerun else []
    lines = [*recorded, *rerun_side]
    return [f"{pair.round if not place else '':>5}  {line}" for place, line in enumerate(lines)]


def _format_side(name: str, made: RoundTrace, *, same: bool = False) -> list[str]:
    decisions = (
        ["the same"] if same else [*map(_format_call, made.calls), *([f"answer: {made.answer}"] if made.answer else [])]
    )
    first, *rest = decisions or ["-"]
    lines = [f"{name:<8}  {one_line(first, DECISION_COLUMNS):<{DECISION_COLUMNS}} {_format_effort(made.effort)}"]
    return [*lines, *(f"{'':<8}  {one_line(other, DECISION_COLUMNS)}" for other in rest)]


def _format_call(call: CallTrace) -> str:
    origin = _ORIGINS[call.result] or (" (failed)" if call.failed else "")
    text = f"{call.tool_id} {call.params}"
    return f"{one_line(text, DECISION_COLUMNS - len(origin))}{origin}"


def _format_effort(effort: Effort) -> str:
    usage = effort.usage
    sent = usage.input_tokens + usage.cache_write_tokens
    cost = f"${usage.cost_nano_usd / 1e9:.6f}" if usage.cost_nano_usd else "-"
    took = format_duration(effort.model_ms / 1000)
    return f"{sent:>8} {usage.cache_read_tokens:>8} {usage.output_tokens:>7} {cost:>11} {took:>9}"


def _format_total(name: str, effort: Effort) -> str:
    counts = f"{format_count(effort.requests, 'request')}, {format_count(effort.calls, 'call')}"
    return f"{'':>5}  {name:<8}  {counts:<{DECISION_COLUMNS}} {_format_effort(effort)}"


def _verdict(found: RerunResult) -> str:
    if found.is_same:
        return "The model made the same decision in every round."
    for turn in found.turns:
        for pair in turn.rounds:
            if pair.verdict != "same":
                return f"The first difference is in round {pair.round} of {turn.turn_id}."
    return "The record and the re-run have different turns."
