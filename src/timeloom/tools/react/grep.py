"""Searches open files for a regular expression in a child process that is killed at its deadline.

ripgrep searches where it is installed. Otherwise, or if it does not support the pattern, a Python worker does. The
accepted patterns are always those of Python's `re`.
"""

import asyncio
import json
import re
import shutil
import sys
import warnings
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from timeloom.core.codes import CodedError
from timeloom.tools.react import grep_worker

MAX_PATTERN_CHARS: Final = 1_000
"""Longest pattern. Smaller refuses long alternations; larger gives hostile patterns more room."""

COLUMNS: Final = 300
"""Symbols shown of a matching line. Fewer hides the match; more lets one long line fill the result."""

_HIT: Final = re.compile(rb"/dev/fd/([0-9]+)\0([0-9]+):(.*)")
_LINE_BYTES: Final = 64 * 1024
_CUT: Final = re.compile(r" \[\.\.\. [^\]]*\]\Z")
_WORKER_FILE: Final = Path(grep_worker.__file__)


class GrepQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The pattern to search for and the limits of the result."""

    pattern: str
    ignore_case: bool = False
    max_hits: int = 200
    hits_per_file: int = 20
    deadline_s: float = 20.0


class GrepHit(msgspec.Struct, frozen=True):
    """A matching line: the index of its file, its number counted from 1, and its beginning."""

    file: int
    line: int
    text: str


class GrepResult(msgspec.Struct, frozen=True):
    """The matching lines in order; `complete` is false if the deadline or the hit limit ended the search."""

    hits: tuple[GrepHit, ...]
    complete: bool = True


def check_pattern(pattern: str) -> None:
    """Raise unless Python's `re` accepts the pattern."""
    if len(pattern) > MAX_PATTERN_CHARS:
        message = f"a pattern has at most {MAX_PATTERN_CHARS} characters, got {len(pattern)}"
        raise CodedError("tool_params_invalid", message)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise CodedError("tool_params_invalid", f"not a regular expression: {error}") from None
    if re.search(r"[\0\n\ud800-\udfff]", pattern):
        raise CodedError(
            "tool_params_invalid", "a pattern must match within one line; remove NUL, line feeds and lone surrogates"
        )


async def grep_files(order: GrepQuery, files: Sequence[int]) -> GrepResult:
    """Return the matching lines of these open files, which are read from the start."""
    check_pattern(order.pattern)
    if ripgrep := shutil.which("rg"):
        found = await _run_command(order, files, _ripgrep_command(ripgrep, order, files), b"")
        if found is not None:
            return found
    command = [sys.executable, "-I", "-S", str(_WORKER_FILE)]
    return await _run_command(order, files, command, _worker_request(order, files)) or GrepResult((), complete=False)


def _ripgrep_command(ripgrep: str, order: GrepQuery, files: Sequence[int]) -> list[str]:
    return [
        ripgrep,
        "--no-config",
        "--no-heading",
        "--with-filename",
        "--null",
        "--line-number",
        "--color=never",
        "--text",
        "--threads=1",
        f"--max-count={order.hits_per_file}",
        f"--max-columns={COLUMNS}",
        "--max-columns-preview",
        "--ignore-case" if order.ignore_case else "--case-sensitive",
        f"--regexp={order.pattern}",
        "--",
        *(f"/dev/fd/{file}" for file in files),
    ]


def _worker_request(order: GrepQuery, files: Sequence[int]) -> bytes:
    request: grep_worker.WorkerRequest = {
        "pattern": order.pattern,
        "ignore_case": order.ignore_case,
        "descriptors": list(files),
        "hits_per_file": order.hits_per_file,
        "columns": COLUMNS,
        "cpu_s": int(order.deadline_s) + 1,
    }
    return json.dumps(request).encode()


async def _run_command(
    order: GrepQuery, files: Sequence[int], command: list[str], stdin_data: bytes
) -> GrepResult | None:
    """Return the command's result; None if it failed without a hit."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, pass_fds=files, limit=_LINE_BYTES
    )
    hits: list[GrepHit] = []
    try:
        async with asyncio.timeout(order.deadline_s):
            complete = await _collect_hits(
                process, stdin_data, {file: at for at, file in enumerate(files)}, order.max_hits, hits
            )
            failed = complete and await process.wait() not in (0, 1)
    except TimeoutError:
        complete = failed = False
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return None if failed and not hits else GrepResult(tuple(hits), complete=complete and not failed)


async def _collect_hits(
    process: Process, stdin_data: bytes, places: dict[int, int], most: int, hits: list[GrepHit]
) -> bool:
    """Append the hits as they arrive; return whether all of them arrived."""
    assert process.stdin
    assert process.stdout
    # A process that has already ended has closed its stdin, and some event loops raise on a write to it.
    if not process.stdin.is_closing():
        process.stdin.write(stdin_data)
        process.stdin.close()
    async for line in process.stdout:
        found = _HIT.fullmatch(line.rstrip(b"\r\n"))
        if found and (place := places.get(int(found[1]))) is not None:
            if len(hits) == most:
                return False
            text = found[3].decode("utf-8", "replace")
            hits.append(GrepHit(place, int(found[2]), _CUT.sub("", text)[:COLUMNS]))
    return True
