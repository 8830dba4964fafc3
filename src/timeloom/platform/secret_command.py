"""Runs the command of a secret reference without a shell, within a deadline and a size limit."""

import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress


class SecretCommandError(Exception):
    """The command could not be run or failed; the message contains none of its output."""


def read_command_output(command: str, environ: Mapping[str, str], max_bytes: int, timeout_s: float) -> bytes:
    """Return the first `max_bytes` bytes of the command's standard output; raises `SecretCommandError`.

    The command gets no input, and its messages on standard error are dropped, because they may quote the secret. Its
    whole process group is killed at the deadline.
    """
    process = _start(command, environ)
    timed_out = threading.Event()

    def stop() -> None:
        timed_out.set()
        _kill(process)

    timer = threading.Timer(timeout_s, stop)
    timer.daemon = True
    timer.start()
    try:
        assert process.stdout is not None
        with process.stdout as output:
            data = output.read(max_bytes)
        if len(data) == max_bytes:
            _kill(process)
            process.wait()
            return data
        status = process.wait()
    finally:
        timer.cancel()
        _kill(process)
    if timed_out.is_set():
        raise SecretCommandError(f"the command did not finish within {timeout_s:g} s")
    if status:
        how = f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
        raise SecretCommandError(f"the command {how}; run it in a terminal to see why")
    return data


def _start(command: str, environ: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise SecretCommandError(f"the command cannot be split into words: {error}") from None
    if not arguments:
        raise SecretCommandError("the command has no words")
    try:
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
            start_new_session=True,
        )
    except FileNotFoundError:
        raise SecretCommandError("the program is not installed, or not on the PATH; there is no shell") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it contains a NUL character"
        raise SecretCommandError(f"the program cannot be started: {reason}") from None


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill the process group, which may outlive its leader."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
