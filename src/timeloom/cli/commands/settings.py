"""`timeloom settings`: shows every setting with its value and origin."""

import sys
from typing import Final

import click
import msgspec

from timeloom.cli.options import OPTION_KEYS, with_settings
from timeloom.config.catalogue import SETTING_SPECS, get_value
from timeloom.config.parse_value import to_printable
from timeloom.config.resolve import LoadedSettings

_LINE_CHARS: Final = 100


@click.command()
@with_settings(*OPTION_KEYS)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, by key.")
def settings(loaded: LoadedSettings, *, as_json: bool) -> None:
    """Show every setting, its value and its origin.

    An option overrides an environment variable, which overrides the settings file, which overrides the default. Secret
    keys are not shown. If a setting is invalid, the command prints its place and the expected value and exits with 2.
    """
    values = {row.key: to_printable(row, get_value(loaded.settings, row.key)) for row in SETTING_SPECS}
    if as_json:
        listed = {key: {"value": value, "from": loaded.origins[key].place} for key, value in values.items()}
        sys.stdout.buffer.write(msgspec.json.encode(listed) + b"\n")
        return
    width = max(map(len, values))
    for key, value in values.items():
        click.echo(f"{key:<{width}}  {_format_value(value)}  ({loaded.origins[key].place})")


def _format_value(value: object) -> str:
    """Return the value on one line without control characters."""
    if value in ("", None):
        return "-"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    line = text if text.isprintable() else repr(text)
    return line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}…"
