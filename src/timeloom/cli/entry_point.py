"""The entry of the command: standard streams that can be used, and an error of the system as one line."""

import errno
import os
import sys
from contextlib import suppress
from typing import Any, NoReturn

import click

from timeloom.cli.sanitize import harmless


class Entry(click.Group):
    """A group of commands that ends with a sentence where it cannot write, or the system refuses something else."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the command that was typed."""
        _check_streams()
        try:
            try:
                return super().main(*args, **kwargs)
            finally:
                # Here and not when the interpreter ends: then it is too late for an exit code and a sentence.
                sys.stdout.flush()
        except OSError as error:
            _fail(error)
        except BaseExceptionGroup as group:
            error = _first_os_error(group)
            if error is None:
                raise
            _fail(error)


def _check_streams() -> None:
    """Puts something in the place of streams that are closed, so that no file takes their number."""
    # Typed as always there, and None where the file was closed before the program began.
    streams: dict[str, object] = {name: getattr(sys, name) for name in ("stdin", "stdout", "stderr")}
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if streams[name] is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - for as long as we run
    if streams["stdout"] is None:
        click.echo("error: standard output is closed; `> /dev/null` throws away what is printed", err=True)
        sys.exit(1)


def _first_os_error(group: BaseExceptionGroup[BaseException]) -> OSError | None:
    """What a group of tasks failed with, if that is nothing but errors of the system."""
    found, rest = group.split(OSError)
    if found is None or rest is not None:
        return None
    error: BaseException = found
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _fail(error: OSError) -> NoReturn:
    # Whoever reads a pipe may stop when they have seen enough.
    if error.errno != errno.EPIPE:
        where = f"{click.format_filename(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        with suppress(OSError):
            click.echo(harmless(f"error: {where}{error.strerror or error}"), err=True)
    _throw_away_the_rest()
    sys.exit(1)


def _throw_away_the_rest() -> None:
    """Lets the interpreter end without trying once more to write what could not be written."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            os.dup2(null, stream.fileno())
