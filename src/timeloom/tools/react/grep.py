"""Searching open files for a regular expression, in a child process that is killed when its time is over.

ripgrep does it where it is installed, and a Python program of ours where it is not, or where it does not know the
pattern. Which patterns are accepted does not depend on that: those of Python's `re`.
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
"""Symbols shown of a line that matches. Fewer hides what matched; more lets one long line fill the result."""

_HIT: Final = re.compile(rb"/dev/fd/([0-9]+)\0([0-9]+):(.*)")
_LINE_BYTES: Final = 64 * 1024
_CUT: Final = re.compile(r" \[\.\.\. [^\]]*\]\Z")
_SCAN: Final = Path(grep_worker.__file__)


class SearchOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for and how much is told of it."""

    pattern: str
    ignore_case: bool = False
    max_hits: int = 200
    hits_per_file: int = 20
    deadline_s: float = 20.0


class Hit(msgspec.Struct, frozen=True):
    """A line that matches: of which of the files given, its number from 1, and its beginning."""

    file: int
    line: int
    text: str


class Searched(msgspec.Struct, frozen=True):
    """The lines that match, in order; `complete` is false where the time or the number of hits ended the search."""

    hits: tuple[Hit, ...]
    complete: bool = True


def check_pattern(pattern: str) -> None:
    """Raises unless Python's `re` takes the pattern."""
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
        raise CodedError("tool_params_invalid", "a pattern is for one line, got NUL, a line feed or half a pair")


async def search(order: SearchOrder, files: Sequence[int]) -> Searched:
    """The lines of these open files that match; the files are read from their beginnings."""
    check_pattern(order.pattern)
    if ripgrep := shutil.which("rg"):
        found = await _run(order, files, _ripgrep_command(ripgrep, order, files), b"")
        if found is not None:
            return found
    command = [sys.executable, "-I", "-S", str(_SCAN)]
    return await _run(order, files, command, _scan_order(order, files)) or Searched((), complete=False)


def _ripgrep_command(ripgrep: str, order: SearchOrder, files: Sequence[int]) -> list[str]:
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


def _scan_order(order: SearchOrder, files: Sequence[int]) -> bytes:
    said: grep_worker.Order = {
        "pattern": order.pattern,
        "ignore_case": order.ignore_case,
        "descriptors": list(files),
        "hits_per_file": order.hits_per_file,
        "columns": COLUMNS,
        "cpu_s": int(order.deadline_s) + 1,
    }
    return json.dumps(said).encode()


async def _run(order: SearchOrder, files: Sequence[int], command: list[str], said: bytes) -> Searched | None:
    """What the command found; nothing where it failed and found nothing."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, pass_fds=files, limit=_LINE_BYTES
    )
    hits: list[Hit] = []
    try:
        async with asyncio.timeout(order.deadline_s):
            complete = await _collect(process, said, {file: at for at, file in enumerate(files)}, order.max_hits, hits)
            failed = complete and await process.wait() not in (0, 1)
    except TimeoutError:
        complete = failed = False
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return None if failed and not hits else Searched(tuple(hits), complete=complete and not failed)


async def _collect(process: Process, said: bytes, places: dict[int, int], most: int, hits: list[Hit]) -> bool:
    """Adds the hits as they come; says whether all of them came."""
    assert process.stdin
    assert process.stdout
    # One that is done already has closed it, and not every event loop lets that pass.
    if not process.stdin.is_closing():
        process.stdin.write(said)
        process.stdin.close()
    async for line in process.stdout:
        found = _HIT.fullmatch(line.rstrip(b"\r\n"))
        if found and (place := places.get(int(found[1]))) is not None:
            if len(hits) == most:
                return False
            text = found[3].decode("utf-8", "replace")
            hits.append(Hit(place, int(found[2]), _CUT.sub("", text)[:COLUMNS]))
    return True
