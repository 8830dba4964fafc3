"""Converts exceptions of tools to `ToolError` values of bounded length without paths of the host."""

import re
import traceback
from pathlib import Path
from typing import Final

from timeloom.core.blocks import ToolError
from timeloom.core.blocks.digest import UNKNOWN_OUTCOME, with_unknown_outcome
from timeloom.core.codes import CodedError
from timeloom.core.stream.surrogates import replace_lone_surrogates
from timeloom.ports.tool import ToolCallError

MAX_MESSAGE_CHARS: Final = 2_000
"""Longest message of an error. Smaller cuts compiler output short; larger lets a failure fill the prompt."""

_ABSOLUTE_PATH: Final = re.compile(r"""(?<![\w:/.<>])(?:[A-Za-z]:)?(?:[/\\][^\s/\\'"`<>|]+){2,}[/\\]?""")
"""Matches absolute paths of two or more names. A URL does not match, because its host precedes its path."""


def to_tool_error(error: BaseException, out_dir: Path) -> ToolError:
    """Return the error of a failed call.

    A `CodedError` and a `ToolCallError` keep their codes. Any other exception becomes `tool_call_error` with its class
    and message.
    """
    if isinstance(error, ToolCallError):
        return _reported_error(error, out_dir)
    if isinstance(error, CodedError):
        return ToolError(code=error.code, message=strip_host_paths(str(error), out_dir) or error.code)
    # `format_exception_only` survives an exception whose `str()` fails, and adds the exception's notes.
    message = "".join(traceback.format_exception_only(error))
    return ToolError(code="tool_call_error", message=strip_host_paths(message, out_dir))


def _reported_error(error: ToolCallError, out_dir: Path) -> ToolError:
    details = {
        name: strip_host_paths(value, out_dir) if isinstance(value, str) else value
        for name, value in error.details.items()
    }
    message = strip_host_paths(str(error), out_dir) or "the tool reported a failure and gave no reason"
    reported = ToolError(code=error.code, message=message, details=details)
    return with_unknown_outcome(reported) if error.outcome == UNKNOWN_OUTCOME else reported


def strip_host_paths(text: str, out_dir: Path) -> str:
    """Return the text cut to `MAX_MESSAGE_CHARS`, with workspace paths made relative and other host paths replaced."""
    # Cut before and after the substitution: the replacement may be longer than the path it replaces.
    head = (
        replace_lone_surrogates(text[: 2 * MAX_MESSAGE_CHARS])
        .replace(f"{out_dir}/", "")
        .replace(str(out_dir), "OUT_DIR")
    )
    clean = _ABSOLUTE_PATH.sub("<a path of this machine>", head).strip()
    return clean if len(clean) <= MAX_MESSAGE_CHARS else clean[: MAX_MESSAGE_CHARS - 1] + "…"
