"""`timeloom replay`: rebuilds the requests of past model calls from the log and checks them."""

import sys
from collections.abc import Sequence
from typing import Final

import click
import msgspec

from timeloom.cli.command import async_command, open_store_for_reading, print_error, select_conversations
from timeloom.cli.commands.replay.cache import print_ledger
from timeloom.cli.commands.replay.rerun import RerunOptions, rerun_options, run_rerun
from timeloom.cli.options import with_settings
from timeloom.cli.sanitize import sanitize
from timeloom.config.resolve import LoadedSettings
from timeloom.core.blocks.round import CallPurpose
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.paths import AliasedPath, LogicalPath, PathError, RoundTextPath, parse
from timeloom.core.view.aliases import resolve_aliases
from timeloom.ports.store import Store, StoreProblem
from timeloom.runtime.replay.replay import RebuiltPrompt, ReplayedCall, find_calls, rebuild_prompt
from timeloom.runtime.replay.replay import replay as replayed
from timeloom.runtime.session.load_views import load_views

MAX_RANGES: Final = 20
"""Maximum number of entry ranges in a warning; more would be unreadable."""


@click.command()
@with_settings("data_dir", "model")
@click.option("--conversation", "only", metavar="ID", help="Only this conversation; the default is all.")
@click.option("--verify", is_flag=True, help="Check every call; print only counts and findings.")
@click.option("--cache", is_flag=True, help="Print expected and reported tokens of the provider's cache, with costs.")
@click.option("--prompt", "path", metavar="PATH", help="Print the prompt of the call ar:<turn>.react.model.<round>.")
@click.option("--attempt", type=click.IntRange(1), help="With --prompt: the attempt; the default is the last.")
@click.option(
    "--purpose",
    type=click.Choice(["decision", "compaction", "title"]),
    help="With --prompt: the purpose of the call; the default is decision.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON objects, one per line.")
@click.argument("conversation", required=False)
@async_command
@rerun_options
async def replay(
    again: RerunOptions | None,
    loaded: LoadedSettings,
    conversation: str | None,
    only: str | None,
    *,
    verify: bool,
    cache: bool,
    path: str | None,
    attempt: int | None,
    purpose: CallPurpose | None,
    as_json: bool,
) -> int:
    """Rebuild the requests of past model calls and compare their hashes with the recorded ones.

    Without an option, lists the calls with their tokens and costs. --verify checks all calls and prints counts.
    --prompt prints one prompt exactly as it was sent. --cache prints the ledger of the provider's cache. These options
    send nothing to a model and change nothing. Exits with 1 if a rebuilt request differs from the one that was sent, or
    if the log cannot be read.

    --from runs a conversation again from an entry, with the model of --model, and prints both runs side by side.
    Without CONVERSATION it uses the newest. Recorded tool results are reused. The conversation stays unchanged.

    \b
    Examples:
      timeloom replay --verify
      timeloom replay conv_... --from 12 --model openai:ID
    """
    if path is None and (attempt or purpose):
        raise click.UsageError("--attempt and --purpose need --prompt")
    if conversation is not None and only is not None:
        raise click.UsageError("CONVERSATION and --conversation exclude each other; pass only one")
    if sum((verify, cache, path is not None, again is not None)) > 1:
        raise click.UsageError("--verify, --prompt, --cache and --from exclude each other; pass only one")
    only = conversation or only
    if again:
        return await run_rerun(loaded.settings, only, again, as_json=as_json)
    async with open_store_for_reading(loaded.settings.data_dir) as store:
        if cache:
            return await print_ledger(store, only, as_json=as_json)
        if path is not None:
            model_path = await _parse_model_path(path, store, only)
            return await _print_prompt(store, only, _PromptQuery(model_path, attempt, purpose or "decision"), as_json)
        return await _print_calls(store, only, _ReplayPrinter(verify=verify, as_json=as_json))


class _VerdictCounts(msgspec.Struct):
    """Counts of the verdicts on replayed calls."""

    calls: int = 0
    same: int = 0
    differs: int = 0
    unchecked: int = 0
    erased: int = 0
    """Unchecked calls whose prompt contained content that was erased."""
    findings: int = 0

    @property
    def is_ok(self) -> bool:
        return self.calls == self.same + self.erased and not self.findings

    def add(self, found: ReplayedCall | StoreProblem) -> None:
        if isinstance(found, StoreProblem):
            self.findings += 1
            return
        self.calls += 1
        setattr(self, found.verdict, getattr(self, found.verdict) + 1)
        self.erased += found.erased

    def add_all(self, other: "_VerdictCounts") -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        if self.is_ok and self.erased:
            showed = f"unchecked because their content was erased: {self.erased}"
            return f"model calls: {self.calls}, the same: {self.same}, {showed}"
        if self.is_ok:
            return f"model calls: {self.calls}, all the same"
        parts = (f"same: {self.same}", f"differ: {self.differs}", f"unchecked: {self.unchecked}")
        return f"model calls: {self.calls} ({', '.join(parts)}), findings: {self.findings}"


async def _print_calls(store: Store, only: str | None, printer: "_ReplayPrinter") -> int:
    total, conversations = _VerdictCounts(), 0
    async for conversation in select_conversations(store, only):
        tally = _VerdictCounts()
        printer.print_heading(conversation)
        async for found in replayed(store, conversation):
            tally.add(found)
            printer.print_result(found)
        printer.print_total(conversation, tally)
        total.add_all(tally)
        conversations += 1
    printer.print_summary(conversations, total)
    return 0 if total.is_ok else 1


class _ReplayPrinter:
    """Prints each result at once, so that a large folder shows progress and needs little memory."""

    def __init__(self, *, verify: bool, as_json: bool) -> None:
        self._verify = verify
        self._as_json = as_json

    def print_heading(self, conversation: ConversationId) -> None:
        if not self._verify and not self._as_json:
            click.echo(f"{conversation}\n{_HEADINGS}")

    def print_result(self, found: ReplayedCall | StoreProblem) -> None:
        if isinstance(found, StoreProblem):
            if self._as_json:
                _print_json({"kind": "finding"} | msgspec.to_builtins(found))
            else:
                place = f"{found.conversation}: " if str(found.conversation) not in found.message else ""
                _print_line(f"{place}{found.message} [{found.code}]")
        elif not self._verify:
            if self._as_json:
                _print_json(found)
            else:
                _print_line(_row(found))

    def print_total(self, conversation: ConversationId, tally: _VerdictCounts) -> None:
        if self._as_json and self._verify:
            _print_json({"kind": "conversation", "conversation": conversation} | msgspec.to_builtins(tally))
        elif not self._as_json:
            click.echo(f"{conversation}: {tally}" if self._verify else "")

    def print_summary(self, conversations: int, total: _VerdictCounts) -> None:
        if self._as_json and self._verify:
            _print_json({"kind": "summary", "conversations": conversations} | msgspec.to_builtins(total))
        elif not self._as_json:
            click.echo(f"Replayed conversations: {conversations}, {total}.")


_HEADINGS: Final = (
    f"{'turn':<26} {'round':>5} {'try':>3} {'purpose':<10} {'in':>8} {'cached':>8} {'out':>7} {'cost':>11} "
    f"{'request':<9} model"
)


def _row(call: ReplayedCall) -> str:
    usage = call.usage
    cost = f"${usage.cost_nano_usd / 1e9:.6f}" if usage.cost_nano_usd else "-"
    ended = "" if call.ended else " (no outcome)"
    return (
        f"{call.turn_id:<26} {call.round:>5} {call.attempt:>3} {call.purpose:<10} {usage.input_tokens:>8} "
        f"{usage.cache_read_tokens:>8} {usage.output_tokens:>7} {cost:>11} {_verdict(call):<9} {call.model}{ended}"
    )


def _verdict(call: ReplayedCall) -> str:
    return "erased" if call.erased else call.verdict


class _PromptQuery(msgspec.Struct, frozen=True):
    path: RoundTextPath
    attempt: int | None
    purpose: CallPurpose


async def _parse_model_path(text: str, store: Store, only: str | None) -> RoundTextPath:
    try:
        path = await _resolve_path(text, store, only)
    except PathError as error:
        raise click.BadParameter(f"{error} [{error.code}]", param_hint="--prompt") from error
    if not isinstance(path, RoundTextPath) or path.what != "model":
        raise click.BadParameter(
            f"expected a model call, ar:<turn>.react.model.<round>; got {text[:80]!r}", param_hint="--prompt"
        )
    return path


async def _resolve_path(text: str, store: Store, only: str | None) -> LogicalPath:
    path = parse(text)
    if not isinstance(path, AliasedPath):
        return path
    if only is None:
        message = f"{path} has the alias of a turn; pass --conversation too, or the id of the turn"
        raise PathError("path_malformed", message)
    return resolve_aliases(path, await load_views(store, ConversationId(only)))


async def _print_prompt(store: Store, only: str | None, query: _PromptQuery, as_json: bool) -> int:
    prompt = await _rebuild_prompt(store, only, query)
    if as_json:
        _print_json(prompt)
    else:
        text = prompt.as_text().rstrip("\n") + "\n"
        output = sanitize(text, keep_tabs=True) if sys.stdout.isatty() else text
        # Not with click.echo, which removes colour codes: a prompt is printed exactly as it was sent.
        sys.stdout.buffer.write(output.encode("utf-8", "surrogatepass"))
    if prompt.call.verdict == "same":
        return 0
    if prompt.call.erased:
        click.echo("warning: this prompt differs from the one that was sent: content of it was erased", err=True)
        return 0
    made_from = f"; it is built from entries {_format_ranges(prompt.seqs)}" if prompt.seqs else ""
    click.echo(
        f"warning: this prompt differs from the one that was sent: the hashes differ{made_from} [replay_differs]",
        err=True,
    )
    return 1


async def _rebuild_prompt(store: Store, only: str | None, query: _PromptQuery) -> RebuiltPrompt:
    """Return the prompt from the first conversation that has the call; only its forks have the same call."""
    async for conversation in select_conversations(store, only):
        try:
            found = await find_calls(store, conversation, query.path, query.purpose)
        except CodedError as error:
            print_error(error, conversation)
            continue
        if found:
            return await rebuild_prompt(store, conversation, _find_attempt(found, query))
    raise CodedError("path_not_found", f"there is no model call for a {query.purpose} at {query.path}")


def _find_attempt(found: dict[int, int], query: _PromptQuery) -> int:
    attempt = query.attempt or max(found)
    if attempt not in found:
        raise CodedError("path_not_found", f"{query.path} has attempts {', '.join(map(str, found))}; got {attempt}")
    return found[attempt]


def _format_ranges(seqs: Sequence[int]) -> str:
    """Format the seqs as ranges, at most `MAX_RANGES` of them."""
    ranges: list[tuple[int, int]] = []
    for seq in seqs:
        if ranges and seq == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in ranges[:MAX_RANGES]]
    return ", ".join(shown) + (", …" if len(ranges) > MAX_RANGES else "")


def _print_line(text: str) -> None:
    # An imported log may contain control characters in the name of a model or block type.
    click.echo(sanitize(text))


def _print_json(value: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
