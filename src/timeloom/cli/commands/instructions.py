"""`timeloom instructions`: shows the sections of the system text, and those that a turn ran with."""

import difflib
from collections.abc import Iterable, Sequence

import click
import msgspec

from timeloom.app import AgentSettings, list_instructions, open_tools
from timeloom.cli.chat.conversations import with_default_model
from timeloom.cli.command import async_command, open_store_for_reading
from timeloom.cli.options import OPTION_KEYS, load_option_tools, with_settings, with_tools
from timeloom.cli.sanitize import sanitize
from timeloom.config.resolve import LoadedSettings
from timeloom.config.settings import Settings
from timeloom.core.ids import ConversationId
from timeloom.runtime.prompt.recorded_instructions import (
    InstructionPart,
    RecordedInstructions,
    load_turn_instructions,
)


@click.command()
@with_settings(*OPTION_KEYS)
@with_tools
@click.option("--conversation", metavar="ID", help="Show what a turn of this conversation ran with.")
@click.option("--turn", metavar="TURN", help="With --conversation: this turn; default: the newest.")
@click.option("--diff", metavar="TURN", help="With --conversation: the changes from this turn to --turn.")
@click.option("--text", is_flag=True, help="With --conversation: also print the whole system text.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per part, or per system text of the turn.")
@async_command
async def instructions(
    loaded: LoadedSettings,
    *,
    conversation: str | None,
    turn: str | None,
    diff: str | None,
    text: bool,
    as_json: bool,
) -> int:
    """Show the sections of the system text with their versions, conditions and tokens.

    Without --conversation, shows the text that new turns get with these settings and tools. With it, shows the text
    that a turn ran with, as its model calls recorded it. The assistant's own instructions have a digest as version.

    \b
    Examples:
      timeloom instructions --tools my_tools:TOOLS
      timeloom instructions --conversation conv_... --turn 5 --diff 2
    """
    if conversation is None:
        if turn or diff or text:
            raise click.UsageError("--turn, --diff and --text need --conversation")
        return await _print_configured(with_default_model(loaded.settings), as_json=as_json)
    async with open_store_for_reading(loaded.settings.data_dir) as store:
        name = ConversationId(conversation)
        found = await load_turn_instructions(store, name, turn)
        before = await load_turn_instructions(store, name, diff) if diff else []
    if before:
        _print_diff(before[-1], found[-1], as_json=as_json)
        return 0
    for recorded in found:
        _print_recorded(recorded, text=text, as_json=as_json)
    return 0


async def _print_configured(settings: Settings, *, as_json: bool) -> int:
    async with open_tools(settings) as tools:
        registry = tools.with_tools(load_option_tools())
        parts = list_instructions(AgentSettings.from_settings(settings), settings.model, registry)
    if as_json:
        for part in parts:
            click.echo(msgspec.json.encode(part).decode())
        return 0
    click.echo(f"{'tokens':>7}  {'part':<18} {'version':<17} condition")
    for part in parts:
        tokens = f"{part.tokens:,}" if part.stands else "-"
        click.echo(sanitize(f"{tokens:>7}  {part.name:<18} {part.version:<17} {part.when}".rstrip()))
    click.echo(f"{_count_tokens(parts):>7,}  in all; parts with - do not apply to this agent")
    return 0


def _print_recorded(recorded: RecordedInstructions, *, text: bool, as_json: bool) -> None:
    if as_json:
        shown = recorded if text else msgspec.structs.replace(recorded, text="")
        click.echo(msgspec.json.encode(shown).decode())
        return
    lines = [
        f"turn {recorded.number}, {recorded.model}, from {recorded.path}",
        f"sections: {' '.join(recorded.sections) or 'edition 1, which has none'}",
        f"own instructions: {recorded.own or 'none recorded'}",
        f"sha256: {recorded.sha256}",
        *(f"{part.tokens:>7,}  {part.name}" for part in recorded.parts),
        f"{recorded.tokens:>7,}  in all",
    ]
    for line in lines:
        click.echo(sanitize(line))
    if text:
        click.echo()
        click.echo(sanitize(recorded.text, keep_tabs=True))


class InstructionsDiff(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of the system text between two turns."""

    before: int
    after: int
    removed: tuple[str, ...]
    """Labels of sections that only the first turn has."""
    added: tuple[str, ...]
    diff: tuple[str, ...]
    """The lines of a unified diff."""


def _print_diff(before: RecordedInstructions, after: RecordedInstructions, *, as_json: bool) -> None:
    old, new = _labels(before), _labels(after)
    lines = difflib.unified_diff(
        before.text.splitlines(), after.text.splitlines(), f"turn {before.number}", f"turn {after.number}", lineterm=""
    )
    changes = InstructionsDiff(
        before=before.number,
        after=after.number,
        removed=tuple(label for label in old if label not in new),
        added=tuple(label for label in new if label not in old),
        diff=tuple(lines),
    )
    if as_json:
        click.echo(msgspec.json.encode(changes).decode())
        return
    if not changes.diff:
        click.echo(f"turns {before.number} and {after.number} ran with the same system text")
    for mark, labels in (("-", changes.removed), ("+", changes.added)):
        for label in labels:
            click.echo(sanitize(f"{mark} {label}"))
    for line in changes.diff:
        click.echo(sanitize(line, keep_tabs=True))


def _labels(recorded: RecordedInstructions) -> Sequence[str]:
    return [*recorded.sections, *([f"own.{recorded.own}"] if recorded.own else [])]


def _count_tokens(parts: Iterable[InstructionPart]) -> int:
    return sum(part.tokens for part in parts)
