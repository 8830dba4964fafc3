"""Runs the command line with usable standard streams, and prints a system error as one line."""

import errno
import os
import sys
from contextlib import suppress
from typing import Any, NoReturn

import click

from timeloom.cli.sanitize import sanitize


class CommandGroup(click.Group):
    """A click group that reports a system error, for example a full disk, as one line instead of a traceback."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command of the command line; an `OSError` is printed and exits with 1."""
        _replace_closed_streams()
        try:
            try:
                return super().main(*args, **kwargs)
            finally:
                # Flush here: when the interpreter ends it is too late to set an exit code and to print an error.
                sys.stdout.flush()
        except OSError as error:
            _exit_with_error(error)
        except BaseExceptionGroup as group:
            error = _first_os_error(group)
            if error is None:
                raise
            _exit_with_error(error)


def _replace_closed_streams() -> None:
    """Replace closed standard streams, so that no file that is opened later gets their descriptor number."""
    # Typed as never None; a stream is None where its descriptor was closed before the program started.
    streams: dict[str, object] = {name: getattr(sys, name) for name in ("stdin", "stdout", "stderr")}
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if streams[name] is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - for as long as we run
    if streams["stdout"] is None:
        click.echo("error: standard output is closed; redirect it, for example to /dev/null", err=True)
        sys.exit(1)


def _first_os_error(group: BaseExceptionGroup[BaseException]) -> OSError | None:
    """Return the first `OSError` of the group; None if the group holds any other error."""
    found, rest = group.split(OSError)
    if found is None or rest is not None:
        return None
    error: BaseException = found
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _exit_with_error(error: OSError) -> NoReturn:
    # A closed pipe is no error: its reader, for example `head`, has read enough.
    if error.errno != errno.EPIPE:
        where = f"{click.format_filename(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        with suppress(OSError):
            click.echo(sanitize(f"error: {where}{error.strerror or error}"), err=True)
    _discard_output()
    sys.exit(1)


def _discard_output() -> None:
    """Redirect the streams to the null device, so that the interpreter does not retry the write that failed."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            os.dup2(null, stream.fileno())
