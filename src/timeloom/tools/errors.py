"""Failures: what an exception of a tool says to the model, bounded and without a path of this machine."""

import re
import traceback
from pathlib import Path
from typing import Final

from timeloom.core.blocks import ToolError
from timeloom.core.codes import CodedError
from timeloom.core.stream.surrogates import mended

MAX_MESSAGE_CHARS: Final = 2_000
"""Longest message of an error. Smaller cuts compiler output short; larger lets a failure fill the prompt."""

_ABSOLUTE: Final = re.compile(r"""(?<![\w:/.<>])(?:[A-Za-z]:)?(?:[/\\][^\s/\\'"`<>|]+){2,}[/\\]?""")
"""Two or more names behind separators that nothing stands before; the path of a URL has its host before it."""


def failure(error: BaseException, out_dir: Path) -> ToolError:
    """The error of a result: a coded one under its code, any other as `tool_call_error` with its class and message."""
    if isinstance(error, CodedError):
        return ToolError(code=error.code, message=without_host_paths(str(error), out_dir) or error.code)
    # Survives an exception whose own `str()` fails, and adds its notes.
    said = "".join(traceback.format_exception_only(error))
    return ToolError(code="tool_call_error", message=without_host_paths(said, out_dir))


def without_host_paths(text: str, out_dir: Path) -> str:
    """The text, cut to its bound: a path in the workspace is relative, and any other of this machine is gone."""
    # Cut before the search and after it, because what stands for a path may be longer than the path.
    head = mended(text[: 2 * MAX_MESSAGE_CHARS]).replace(f"{out_dir}/", "").replace(str(out_dir), "OUT_DIR")
    clean = _ABSOLUTE.sub("<a path of this machine>", head).strip()
    return clean if len(clean) <= MAX_MESSAGE_CHARS else clean[: MAX_MESSAGE_CHARS - 1] + "…"
